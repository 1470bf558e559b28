"""Records: what was decided and what it took, one line of JSON per frame."""

from __future__ import annotations

import io
import json
import math
from contextlib import suppress
from pathlib import Path

from stmg.outputs.sink import FileSink, name_errors
from stmg.streaming.state import FrameResult


class Records(FileSink):
    """One line of JSON per frame, on disk as soon as the frame is done."""

    def __init__(self, path: str | Path) -> None:
        super().__init__(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with name_errors(self.path):
            self._file = io.FileIO(self.path, "wb")  # unbuffered: each line is handed over whole
        self._complete = 0

    def _write(self, result: FrameResult) -> None:
        record = {
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
        }
        line = json.dumps(record, ensure_ascii=False).encode() + b"\n"
        written = 0
        try:
            while written < len(line):  # a disk that is nearly full takes part of it without an error
                written += self._file.write(line[written:])
        except OSError:
            with suppress(OSError):
                self._file.truncate(self._complete)
            raise
        self._complete += len(line)

    def _finish(self) -> None:
        self._file.close()


def _round(value: float | None, digits: int) -> float | None:
    return round(value, digits) if value is not None and math.isfinite(value) else None
