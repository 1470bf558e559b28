"""Frame results like a segmenter's: planned key frames have no distortion."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from stmg.outputs.sinks import Sink
from stmg.streaming.cost import Cost
from stmg.streaming.result import FrameResult
from stmg.streaming.schedulers import Level

PALETTE = np.array([(10, 20, 30), (200, 0, 0), (0, 200, 0)], np.uint8)
PERIOD = 5
NUM_BLOCKS = 3


def result(index: int, size: tuple[int, int] = (32, 48), *, noise: bool = False, **fields: Any) -> FrameResult:
    """The frame of this index of a stream with a key frame every fifth; `fields` in place of what it would have."""
    random = np.random.default_rng(index)
    shade = random.integers(0, 255, (*size, 3), np.uint8) if noise else np.full((*size, 3), 2 * index % 256, np.uint8)
    labels = np.zeros(size, np.uint8)
    labels[:, : size[1] // 2] = 1
    labels[:2] = 255
    key, since_key = index % PERIOD == 0, index % PERIOD
    usual = FrameResult(
        labels=labels,
        level=Level.KEY if key else Level.CARRY,
        reason="drift" if index else "first frame",
        distortion=math.nan if key else 0.0123456789 * since_key,
        drift=0.0 if key else 0.0123456789 * since_key,
        keep=(key,) * NUM_BLOCKS,
        latency_ms=12.3456789 if key else 3.456789,
        motion="none" if key else "dis",
        count_cost=(lambda: Cost(1000, 100, 10)) if key else Cost,
        computed=key,
        index=index,
        time=index / 25,
        image=shade,
        changed=None if key else np.full((8, 12), 0.0123456789 * since_key, np.float32),
        palette=PALETTE,
    )
    if "cost" in fields:
        cost = fields.pop("cost")
        fields["count_cost"] = lambda: cost
    return replace(usual, **fields)


def write_frames(sink: Sink, num_frames: int) -> None:
    for index in range(num_frames):
        sink.write(result(index))
