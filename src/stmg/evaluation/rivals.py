"""Rivals: what a sensible engineer would try first, over the same streams and the same runtime."""

from __future__ import annotations

import time
from typing import Any

import cv2
import numpy as np

from stmg.evaluation.stream import Stepper
from stmg.frames import Frame, as_frame
from stmg.motion import DisMotion, Field, View, composed, view_of
from stmg.runtimes import Runtime
from stmg.scheduler import AlwaysKey, FixedPeriod, Level
from stmg.segmenter import VideoSegmenter
from stmg.state import Cost, FrameResult, Labels

COPIED = (2, 3, 5)
CARRIED = (2, 3, 5, 10)


def rivals_of(segmenter: VideoSegmenter) -> dict[str, Stepper]:
    """Every rival that needs no other network, by name; the base network comes first."""
    runtime = segmenter.runtime
    found: dict[str, Stepper] = {"base on every frame": VideoSegmenter(runtime, scheduler=AlwaysKey())}
    for period in COPIED:
        copied = VideoSegmenter(runtime, scheduler=FixedPeriod(period, Level.CARRY), motion="none")
        found[f"mask copied, every {period}"] = copied
    if getattr(runtime, "size", None) is None:  # a graph for one size alone cannot be run at half of it
        found["half resolution"] = HalfResolution(runtime)
    for period in CARRIED:
        found[f"logits carried, every {period}"] = CarriedLogits(runtime, period)
    return found


class _Rival:
    """A stream over a runtime; what it gives is told as a segmenter tells it."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.number = 0

    def reset(self) -> None:
        self.number = 0

    def step(self, frame: Any) -> FrameResult:
        started = time.perf_counter()
        frame = as_frame(frame)
        level, size, labels = self._segment(frame)
        latency = 1000 * (time.perf_counter() - started)
        self.number += 1
        keep = (level is Level.KEY,) * self.runtime.num_blocks
        return FrameResult(
            labels=labels,
            level=level,
            reason="rival",
            distortion=float("nan"),
            drift=0.0,
            keep=keep,
            latency_ms=latency,
            motion="none",
            cost=Cost() if level is Level.CARRY else self.runtime.cost(size, level, keep, 1.0, masked=False),
            index=self.number - 1,
            time=frame.time,
            image=frame.image,
            changed=None,
            palette=np.zeros((0, 3), np.uint8),
        )

    def _segment(self, frame: Frame) -> tuple[Level, tuple[int, int], Labels]:
        """The level, the size that the network saw, and the labels."""
        raise NotImplementedError


class HalfResolution(_Rival):
    """Every frame computed at half its height and width."""

    def _segment(self, frame: Frame) -> tuple[Level, tuple[int, int], Labels]:
        height, width = frame.size
        small = (max(1, height // 2), max(1, width // 2))
        image: Any = cv2.resize(frame.image, small[::-1], interpolation=cv2.INTER_AREA)
        output = self.runtime.full(self.runtime.prepare(image))
        return Level.KEY, small, self.runtime.labels(output.scores, frame.size)


class CarriedLogits(_Rival):
    """Every `period`th frame computed; on the others its logits, moved along composed DIS motion."""

    def __init__(self, runtime: Runtime, period: int) -> None:
        super().__init__(runtime)
        self.period = period
        self._flow = DisMotion()
        self._scores: Any = None
        self._before: View | None = None
        self._path: Field | None = None

    def reset(self) -> None:
        super().reset()
        self._before = self._path = None

    def _segment(self, frame: Frame) -> tuple[Level, tuple[int, int], Labels]:
        view = view_of(frame) if self.period > 1 else None
        if self._before is None or view is None or self.number % self.period == 0:
            level, self._path = Level.KEY, None
            self._scores = scores = self.runtime.full(self.runtime.prepare(frame.image)).scores
        else:
            level = Level.CARRY
            self._path = composed(self._path, self._flow.between(self._before, view).field)
            everything = np.ones((1, 1), np.float32)
            scores = self.runtime.fused(self._scores, self._scores, self._path, everything)
        self._before = view
        return level, frame.size, self.runtime.labels(scores, frame.size)
