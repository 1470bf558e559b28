"""Baselines: simpler ways to save work, over the same streams and the same runtime."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import cv2
import numpy as np

from stmg.streaming.flow import Flow, compose
from stmg.streaming.motion import DisMotion, MotionEstimator, View, make_view, refine_flow
from stmg.streaming.result import FrameResult, make_result
from stmg.streaming.runtime import Runtime
from stmg.streaming.schedulers import Level
from stmg.streaming.segmentation import Segmentation
from stmg.video.frames import Frame, as_frame
from stmg.video.labels import Labels

NO_COLORS = np.zeros((0, 3), np.uint8)


class _Baseline:
    """A stream over a runtime, with results like a segmenter's."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.num_frames = 0

    def reset(self) -> None:
        self.num_frames = 0

    def step(self, frame: Any) -> FrameResult:
        started = time.perf_counter()
        frame = as_frame(frame)
        level, labels = self._segment(frame)
        result = make_result(
            self.runtime,
            NO_COLORS,
            frame,
            self.num_frames,
            Segmentation(labels),
            level,
            "baseline",
            latency_ms=1000 * (time.perf_counter() - started),
            computed=level is Level.KEY,
        )
        self.num_frames += 1
        return result

    def _segment(self, frame: Frame) -> tuple[Level, Labels]:
        """Key or carry, and the labels of the next frame."""
        raise NotImplementedError


class HalfResolution(_Baseline):
    """Run the network on every frame, at half its height and width."""

    def step(self, frame: Any) -> FrameResult:
        result = super().step(frame)
        small, keep = halve(result.labels.shape), result.keep
        return replace(result, count_cost=lambda: self.runtime.cost(small, Level.KEY, keep, 1.0, masked=False))

    def _segment(self, frame: Frame) -> tuple[Level, Labels]:
        image: Any = cv2.resize(frame.image, halve(frame.size)[::-1], interpolation=cv2.INTER_AREA)
        output = self.runtime.full(self.runtime.prepare(image))
        return Level.KEY, self.runtime.labels(output.logits, frame.size)


class WarpedLogits(_Baseline):
    """Run the network on every `stride`th frame; on the others, warp its logits along the DIS flow.

    motion: that of the stream to compare with; the coarsest DIS level if that stream uses no DIS.
    """

    def __init__(self, runtime: Runtime, stride: int, motion: MotionEstimator | None = None) -> None:
        super().__init__(runtime)
        self.stride = stride
        self._motion = motion if isinstance(motion, DisMotion) else DisMotion()
        self._logits: Any = None
        self._before: View | None = None
        self._computed: View | None = None
        self._flow: Flow | None = None

    def reset(self) -> None:
        super().reset()
        self._before = self._computed = self._flow = None

    def _segment(self, frame: Frame) -> tuple[Level, Labels]:
        view = make_view(frame, self._motion.view_width) if self.stride > 1 else None
        distance = self.num_frames % self.stride
        if self._before is None or self._computed is None or view is None or distance == 0:
            level, self._flow, self._computed = Level.KEY, None, view
            self._logits = logits = self.runtime.full(self.runtime.prepare(frame.image)).logits
        else:
            level = Level.CARRY
            composed = compose(self._flow, self._motion.estimate(self._before, view))
            self._flow = refine_flow(self._motion, composed, self._computed, view, distance)
            everywhere = np.ones((1, 1), np.float32)
            logits = self.runtime.fuse(self._logits, self._logits, self._flow, everywhere)
        self._before = view
        return level, self.runtime.labels(logits, frame.size)


def halve(size: tuple[int, ...]) -> tuple[int, int]:
    """Half a height and width."""
    height, width = size
    return max(1, height // 2), max(1, width // 2)
