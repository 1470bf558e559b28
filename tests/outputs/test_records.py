"""Records are whole lines of JSON at any moment, with null for what is not a number."""

from __future__ import annotations

import json
import math
from pathlib import Path

from results import result
from stmg.outputs.records import Records
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
    }
    assert (second["level"], second["distortion"], second["kept_blocks"], second["macs"]) == ("carry", 0.01235, 0, 0)
    assert (last["time"], last["drift"], last["macs"]) == (None, None, None)
    assert (last["level"], last["reason"]) == ("partial", "größer")
