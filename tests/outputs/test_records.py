"""Records are complete lines of JSON at any moment, with null for NaN."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np

from results import result
from stmg.outputs.records import Records
from stmg.streaming.audit import Audit
from stmg.streaming.schedulers import Level


def test_records_are_complete_lines_at_any_moment(tmp_path: Path) -> None:
    path = tmp_path / "made" / "records.jsonl"
    sink = Records(path)
    for index in range(3):
        sink.write(result(index))
        assert len(path.read_text().splitlines()) == index + 1
    sink.write(result(3, time=None, drift=math.inf, cost=None, level=Level.PARTIAL, reason="größer"))
    sink.close()
    first, second, *_, last = (json.loads(line) for line in path.read_text(encoding="utf-8").splitlines())
    assert first == {
        "index": 0,
        "time": 0.0,
        "level": "key",
        "reason": "first frame",
        "distortion": None,
        "drift": 0.0,
        "kept_blocks": 3,
        "keep": [1, 1, 1],
        "motion": "none",
        "macs": 1000,
        "latency_ms": 12.346,
        "audit": None,
    }
    assert (second["level"], second["distortion"], second["kept_blocks"], second["macs"]) == ("carry", 0.01235, 0, 0)
    assert (last["time"], last["drift"], last["macs"]) == (None, None, None)
    assert (last["level"], last["reason"]) == ("partial", "größer")


def test_records_hold_what_an_anchor_measured(tmp_path: Path) -> None:
    with Records(tmp_path / "records.jsonl") as sink:
        sink.write(result(5, audit=Audit(0.0123456789, {0: 0.25, 7: 1.0}, 5)))
        sink.write(result(6, audit=Audit(0.5, {}, 1, 0.5)))
    first, second = (json.loads(line)["audit"] for line in (tmp_path / "records.jsonl").read_text().splitlines())
    assert first == {"changed": 0.01235, "distance": 5, "flicker": None, "classes": {"0": 0.25, "7": 1.0}}
    assert second["flicker"] == 0.5


def test_records_hold_the_areas_of_classes_on_request(tmp_path: Path) -> None:
    usual = result(0)  # 2 of 32 rows without a label, else class 1 on the left and class 0 on the right
    soft = replace(usual, probability=np.zeros(usual.labels.shape, np.float32))
    share = round(30 / 64, 5)
    for written, names, areas in (
        (usual, (), {"0": share, "1": share}),
        (usual, ("road",), {"road": share, "1": share}),
        (soft, (), {"background": share, "foreground": share}),
        (soft, ("rest", "person"), {"rest": share, "person": share}),
    ):
        with Records(tmp_path / "records.jsonl", areas=True, class_names=names) as sink:
            sink.write(written)
        assert json.loads((tmp_path / "records.jsonl").read_text())["areas"] == areas
