"""Frame results as a segmenter gives them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from stmg.scheduler import Level
from stmg.sinks import Sink
from stmg.state import Cost, FrameResult

PALETTE = np.array([(10, 20, 30), (200, 0, 0), (0, 200, 0)], np.uint8)


def result(index: int, size: tuple[int, int] = (32, 48), *, noise: bool = False, **fields: Any) -> FrameResult:
    random = np.random.default_rng(index)
    shade = random.integers(0, 255, (*size, 3), np.uint8) if noise else np.full((*size, 3), 2 * index % 256, np.uint8)
    labels = np.zeros(size, np.uint8)
    labels[:, : size[1] // 2] = 1
    labels[:2] = 255
    known = FrameResult(
        labels=labels,
        level=Level.KEY if index % 5 == 0 else Level.CARRY,
        reason="drift",
        distortion=0.123456789,
        drift=0.25,
        keep=(True, False, True) if index % 5 == 0 else (False,) * 3,
        latency_ms=12.3456789,
        motion="dis",
        cost=Cost(1000),
        index=index,
        time=index / 25,
        image=shade,
        changed=None,
        palette=PALETTE,
    )
    return replace(known, **fields)


def write_frames(sink: Sink, num_frames: int) -> None:
    for index in range(num_frames):
        sink.write(result(index))
