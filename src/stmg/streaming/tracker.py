"""Tracker: how a frame follows from the one before it (view, flow, change, drift), or why it does not."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from stmg.streaming.flow import Flow, Map, compose, warp
from stmg.streaming.motion import MotionEstimator, View, make_view, measure_change, refine_flow
from stmg.video.frames import Frame

# Mean residual above which two frames do not show one scene. On CamVid's 15 Hz drive neighbors reach 0.12, frames a
# third of a second apart 0.24; frames of different drives start at 0.39.
CUT_RESIDUAL = 0.37
GAP_INTERVALS = 4.0  # a frame later than so many times the last interval follows a gap
MIN_GAP = 0.2  # seconds; shorter ones are none


class Timing(NamedTuple):
    """Time of a frame and interval since the one before it, in seconds; None if the source does not give them."""

    time: float | None
    interval: float | None = None

    def next(self, frame: Frame) -> Timing:
        """Return the timing of the frame after this one."""
        if frame.time is None or self.time is None:
            return Timing(frame.time)
        return Timing(frame.time, frame.time - self.time)

    def is_gap(self, frame: Frame) -> bool:
        """True if the frame was taken before this one, or much later than frames usually follow."""
        passed = self.next(frame).interval
        if passed is None:
            return False
        return passed < 0 or (self.interval is not None and passed > max(GAP_INTERVALS * self.interval, MIN_GAP))


class Step(NamedTuple):
    """The motion from a frame back to the one before it."""

    flow: Flow | None
    residual: Map
    """(h, w) in [0, 1]: the change of each cell that the flow does not explain."""

    @property
    def is_cut(self) -> bool:
        """True if the two frames show different scenes."""
        return float(self.residual.mean()) > CUT_RESIDUAL


def estimate_step(estimator: MotionEstimator, before: View, now: View) -> Step:
    """Estimate the motion between two neighboring frames."""
    flow = estimator.estimate(before, now)
    return Step(flow, measure_change(before, now, flow))


@dataclass(frozen=True, slots=True)
class TrackedFrame:
    """A frame as the tracker knows it."""

    view: View
    timing: Timing
    break_reason: str = ""
    """Why nothing carries over from the frame before: first frame, size change, gap or cut. Empty if something does."""
    flow: Flow | None = None
    """Flow to the frame before; None if nothing moved or motion was not estimated."""
    residual: Map | None = None
    """Change since the frame before that the flow does not explain, (h, w) in [0, 1]; None if not estimated."""
    change: Map | None = None
    """Sum of the residuals since the last computed frame, (h, w) in [0, 1]; None if nothing was carried from it."""

    @property
    def drift(self) -> float:
        """The mean of `change`."""
        return 0.0 if self.change is None else float(self.change.mean())

    def as_computed(self) -> TrackedFrame:
        """Return the frame with its change reset, since the network has computed it."""
        return replace(self, change=None)


class Tracker:
    """Follows a stream from frame to frame. It keeps no state: what is known of the frame before is handed in."""

    def __init__(self, estimator: MotionEstimator) -> None:
        self.estimator = estimator

    def track(self, frame: Frame, before: TrackedFrame | None) -> TrackedFrame:
        """Track a frame: its motion and change since the frame before, or the reason why it does not follow."""
        tracked = self.observe(frame, before)
        return tracked if before is None or tracked.break_reason else self.add_motion(tracked, before)

    def observe(self, frame: Frame, before: TrackedFrame | None) -> TrackedFrame:
        """Track a frame without its motion. A change of size and a gap are detected; a cut is not."""
        view = make_view(frame, self.estimator.view_width)
        if before is None:
            return TrackedFrame(view, Timing(frame.time), "first frame")
        if before.view.size != frame.size:
            return TrackedFrame(view, before.timing.next(frame), "size change")
        if before.timing.is_gap(frame):
            return TrackedFrame(view, Timing(frame.time), "gap")
        return TrackedFrame(view, before.timing.next(frame))

    def add_motion(self, tracked: TrackedFrame, before: TrackedFrame) -> TrackedFrame:
        """Add to an observed frame its motion and change since the frame before."""
        step = estimate_step(self.estimator, before.view, tracked.view)
        if step.is_cut:
            return replace(tracked, break_reason="cut")
        change = step.residual
        if before.change is not None:
            change = np.minimum(step.residual + warp(before.change, step.flow), 1)
        return replace(tracked, flow=step.flow, residual=step.residual, change=change)


class Lookback(NamedTuple):
    """Flow and distance from the newest frame back to a computed one."""

    view: View
    """View of the computed frame."""
    flow: Flow | None = None
    """Flow from the newest frame to it. Long flows are composed into one, so that warping samples only once."""
    distance: int = 0
    """Frames between them."""

    def extend(self, flow: Flow | None) -> Lookback:
        """Extend to the next frame, given its flow to the newest one."""
        return Lookback(self.view, compose(self.flow, flow), self.distance + 1)

    def refine(self, estimator: MotionEstimator, now: View) -> Lookback:
        """Fit a long flow to both of its ends."""
        return self._replace(flow=refine_flow(estimator, self.flow, self.view, now, self.distance))
