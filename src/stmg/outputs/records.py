"""Records: one line of JSON per frame, with its level, cost and latency."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np

from stmg.outputs.sinks import FileSink
from stmg.streaming.audit import Audit
from stmg.streaming.result import FrameResult
from stmg.video.labels import IGNORE

FOREGROUND_NAMES = ("background", "foreground")


class Records(FileSink):
    """One line of JSON per frame, written as soon as the frame is done.

    areas: record the share of pixels of each class.
    class_names: names of these classes. Unnamed classes are written as numbers.
    """

    def __init__(self, path: str | Path, *, areas: bool = False, class_names: Sequence[str] = ()) -> None:
        super().__init__(path)
        self.areas, self.class_names = areas, tuple(class_names)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file: io.FileIO | None = None
        self._complete = 0

    def _write(self, result: FrameResult) -> None:
        if self._file is None:  # open at the first frame, so that a run without frames keeps the old records
            self._file = io.FileIO(self.path, "wb")  # unbuffered: each line is written immediately
        record = describe_result(result, self.areas, self.class_names)
        line = json.dumps(record, ensure_ascii=False).encode() + b"\n"
        written = 0
        try:
            while written < len(line):  # a nearly full disk accepts part of a line without an error
                written += self._file.write(line[written:])
        except OSError:
            with suppress(OSError):
                self._file.truncate(self._complete)
            raise
        self._complete += len(line)

    def _finish(self) -> None:
        if self._file is not None:
            self._file.close()


def describe_result(result: FrameResult, areas: bool = False, class_names: Sequence[str] = ()) -> dict[str, object]:
    """The record of a frame, as plain values."""
    record: dict[str, object] = {
        "index": result.index,
        "time": _round(result.time, 6),
        "level": str(result.level),
        "reason": result.reason,
        "distortion": _round(result.distortion, 5),
        "drift": _round(result.drift, 5),
        "kept_blocks": result.kept_blocks,
        "keep": [int(runs) for runs in result.keep],
        "motion": result.motion,
        "macs": result.macs,
        "latency_ms": _round(result.latency_ms, 3),
        "audit": _describe_audit(result.audit),
    }
    if areas:
        record["areas"] = measure_areas(result, class_names)
    return record


def measure_areas(result: FrameResult, class_names: Sequence[str] = ()) -> dict[str, float]:
    """The share of pixels of each class in a frame, by name or number. Pixels without a label are in no class."""
    if result.probability is not None:
        class_names = class_names or FOREGROUND_NAMES
    counts = np.bincount(result.labels.ravel(), minlength=IGNORE + 1)[:IGNORE]
    return {
        class_names[number] if number < len(class_names) else str(number): round(
            int(counts[number]) / result.labels.size, 5
        )
        for number in counts.nonzero()[0].tolist()
    }


def _describe_audit(audit: Audit | None) -> dict[str, object] | None:
    if audit is None:
        return None
    return {
        "changed": _round(audit.changed, 5),
        "distance": audit.distance,
        "flicker": _round(audit.flicker, 5),
        "classes": {str(number): _round(share, 5) for number, share in audit.classes.items()},
    }


def _round(value: float | None, digits: int) -> float | None:
    return round(value, digits) if value is not None and math.isfinite(value) else None
