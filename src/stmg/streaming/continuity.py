"""Continuity: whether a frame follows from the one before it, and how much of it the last computed frame explains."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stmg.streaming.flow import Flow, Map, warp
from stmg.streaming.motion import MotionEstimator, View, measure_change
from stmg.video.frames import Frame

# Mean unexplained change above which two frames do not show one scene. On CamVid's 15 Hz drive neighbors reach 0.12,
# frames a third of a second apart 0.24; frames of different drives start at 0.39.
CUT = 0.37
# A frame later than this many times the last interval follows a gap.
GAP = 4.0


class Timing(NamedTuple):
    """When a frame was taken and how long after the one before it, in seconds; None where the source does not know."""

    time: float | None
    interval: float | None = None

    def next(self, frame: Frame) -> Timing:
        """The timing of the frame after this one."""
        known = frame.time is not None and self.time is not None
        return Timing(frame.time, frame.time - self.time if known else None)  # type: ignore[operator]


def find_break(frame: Frame, size: tuple[int, int], timing: Timing) -> str:
    """Why a frame cannot follow one of that size and timing; empty if it can."""
    if size != frame.size:
        return "size change"
    passed = timing.next(frame).interval
    if passed is not None:
        late = timing.interval is not None and passed > max(GAP * timing.interval, 0.2)
        if passed < 0 or late:
            return "gap"
    return ""


class Step(NamedTuple):
    """How a frame follows from the one before it."""

    flow: Flow | None
    """To the frame before."""
    residual: Map
    """(h, w) in [0, 1]: what motion leaves unexplained of each cell."""

    @property
    def is_cut(self) -> bool:
        """Whether the two show different scenes."""
        return float(self.residual.mean()) > CUT


def find_step(estimator: MotionEstimator, before: View, now: View) -> Step:
    """Motion from a frame to the one before it, and what it leaves unexplained."""
    flow = estimator.estimate(before, now)
    return Step(flow, measure_change(before, now, flow))


def add_change(stale: Map | None, residual: Map, flow: Flow | None) -> Map:
    """What the last computed frame no longer explains, one frame later; None: that frame was the computed one."""
    if stale is None:
        return residual
    total: Map = np.minimum(residual + warp(stale, flow), 1)
    return total
