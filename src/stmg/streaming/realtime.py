"""Realtime: the network runs in the background, and every frame is answered at once by warping the newest anchor."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from stmg.streaming.anchors import Anchor, carry_corrected, make_anchor
from stmg.streaming.audit import UNSTEERED, Audit, Steering, compare
from stmg.streaming.flow import find_positions, is_outside
from stmg.streaming.motion import View, measure_change
from stmg.streaming.result import FrameResult, make_result
from stmg.streaming.runtime import Runtime
from stmg.streaming.schedulers import Level
from stmg.streaming.segmentation import Segmentation, keep_segmentation
from stmg.streaming.settings import Settings
from stmg.streaming.threads import lower_thread_priority
from stmg.streaming.tracker import Lookback, TrackedFrame, Tracker
from stmg.video.frames import Frame, as_frame
from stmg.video.labels import Labels

# Mean change since the last frame given to the network above which the next one is given to it. A still scene under
# sensor noise stays below.
MIN_CHANGE_TO_RUN = 0.04
MAX_AGE = 30  # frames after which the network runs in any case, so that errors which change misses do not last


class NetworkResult(NamedTuple):
    """Output of the network for a frame, computed in the background."""

    anchor: Anchor
    audit: Audit | None
    """Audit of the labels shown for the frame in the meantime; None if none of its scene were shown."""


@dataclass(frozen=True, slots=True)
class Run:
    """A frame that was given to the network."""

    future: Future[NetworkResult]
    lookback: Lookback
    """Flow and distance from the newest frame to it, as long as there is no break between them."""
    scene: int

    def extend(self, tracked: TrackedFrame, scene: int) -> Run:
        """Return the run as seen from the next frame, of this scene."""
        if self.scene == scene:
            return replace(self, lookback=self.lookback.extend(tracked.flow))
        return replace(self, lookback=self.lookback._replace(distance=self.lookback.distance + 1))


@dataclass(frozen=True, slots=True)
class RealtimeState:
    """Everything a frame leaves for the next one of its stream."""

    tracked: TrackedFrame | None = None
    """The newest frame; None before the first."""
    scene: int = 0
    """Number of scene breaks so far."""
    number: int = 0
    """Number of frames so far."""
    current: Run | None = None
    """The run whose labels are shown."""
    pending: Run | None = None
    """The run that is under way or has just finished."""
    steering: Steering = UNSTEERED

    def follow(self, tracked: TrackedFrame) -> RealtimeState:
        """Return the state with the next frame tracked."""
        broken = bool(tracked.break_reason)
        scene, steering = self.scene + broken, self.steering.restart() if broken else self.steering
        current, pending = (None if run is None else run.extend(tracked, scene) for run in (self.current, self.pending))
        # Change is not added up: realtime measures it against the frame that is shown.
        return RealtimeState(tracked.as_computed(), scene, self.number + 1, current, pending, steering)


class Realtime:
    """The loop of a live stream without its memory: `advance` takes the state before a frame and gives the one after.

    Only the first frame waits for the network, as there is nothing to show before it.

    submit: runs a function in the background, as an executor does. A stream never has more than one run waiting.
    min_change: mean change since the last computed frame from which the network runs again.
    max_age: frames after which it runs in any case.
    """

    def __init__(
        self,
        runtime: Runtime,
        settings: Settings,
        submit: Callable[..., Future[Any]],
        clock: Callable[[], float] = time.perf_counter,
        min_change: float = MIN_CHANGE_TO_RUN,
        max_age: int = MAX_AGE,
    ) -> None:
        self.runtime, self.settings, self.tracker = runtime, settings, Tracker(settings.motion)
        self.min_change, self.max_age = min_change, max_age
        self._submit, self._clock = submit, clock

    def advance(self, value: Any, state: RealtimeState) -> tuple[FrameResult, RealtimeState]:
        """Compute a frame's result and the state after it. Raises errors of the network."""
        arrived, frame, number = self._clock(), as_frame(value), state.number
        tracked = self.tracker.track(frame, state.tracked)
        state, audit, computed = self._take_over(state.follow(tracked))
        is_first = state.current is None
        if is_first:
            state = self._start_run(frame, tracked.view, state, None)
            assert state.pending is not None
            state.pending.future.result()  # waits
            state, audit, computed = self._take_over(state)
        assert state.current is not None
        stale, age = state.current.scene != state.scene, state.current.lookback.distance
        if not stale:
            lookback = state.current.lookback.refine(self.tracker.estimator, tracked.view)
            state = replace(state, current=replace(state.current, lookback=lookback))
        runs = is_first or (state.pending is None and (stale or self._is_worth_a_run(tracked.view, state)))
        segmentation = self._show(frame, state)
        if runs and not is_first:
            labels = None if stale else segmentation.labels.copy()  # the caller may write on what it gets
            state = self._start_run(frame, tracked.view, state, labels, age)
        result = make_result(
            self.runtime,
            self.settings.palette,
            frame,
            number,
            segmentation,
            Level.KEY if age == 0 and not stale else Level.CARRY,
            tracked.break_reason or "realtime",
            latency_ms=1000 * (self._clock() - arrived),
            computed=computed,
            motion="none" if tracked.residual is None else self.tracker.estimator.name,
            changed=tracked.residual,
            executed=Level.KEY if runs else Level.CARRY,
            corrector=None if segmentation.correction is None else self.settings.corrector,
            distance=age,
            stale=stale,
            audit=audit,
        )
        return result, state

    def _take_over(self, state: RealtimeState) -> tuple[RealtimeState, Audit | None, bool]:
        """Show the run that is under way if it has finished. Its audit counts if its scene still goes on.

        A run of a scene that is over is stale, but newer than what was shown. Where every frame is a cut there is no
        other.
        """
        if state.pending is None or not state.pending.future.done():
            return state, None, False
        taken = state.pending
        audit = taken.future.result().audit  # raises what went wrong
        audit = None if taken.scene != state.scene else state.steering.add_flicker(audit)
        steering = state.steering
        if audit is not None:
            steering = steering.follow(audit, self.settings.max_change)
        return replace(state, current=taken, pending=None, steering=steering), audit, True

    def _start_run(
        self, frame: Frame, view: View, state: RealtimeState, labels: Labels | None, age: int = 0
    ) -> RealtimeState:
        """Give a frame to the network. `labels`, which are shown for it now, `age` frames old, will be audited."""
        future = self._submit(_run_network, self.runtime, self.settings, frame, labels, age)
        return replace(state, pending=Run(future, Lookback(view), state.scene))

    def _is_worth_a_run(self, view: View, state: RealtimeState) -> bool:
        """True if much has changed since the frame that is shown, or it is old; both are of one scene."""
        assert state.current is not None
        before, flow, distance = state.current.lookback
        if distance >= self.max_age:
            return True
        change = measure_change(before, view, flow)
        change[is_outside(find_positions(flow, change.shape), change.shape)] = 1
        return float(change.mean()) > self.min_change * state.steering.factor

    def _show(self, frame: Frame, state: RealtimeState) -> Segmentation:
        """Make the segmentation to show for a frame."""
        assert state.current is not None
        anchor, (_, flow, distance) = state.current.future.result().anchor, state.current.lookback
        if state.current.scene != state.scene:
            return keep_segmentation(anchor.segmentation, frame.size)
        segmentation = carry_corrected(self.settings.corrector if distance else None, anchor, flow, frame.image)
        return segmentation if flow is not None else segmentation.copy()


class RealtimeStream:
    """A live stream: its state, and the executor that runs the network.

    executor: streams that share one share its workers; if none is given, the stream has a worker of its own.
    options: those of `Realtime`.
    """

    def __init__(self, runtime: Runtime, settings: Settings, executor: Executor | None = None, **options: Any) -> None:
        self._own = None
        if executor is None:
            executor = self._own = ThreadPoolExecutor(
                1, thread_name_prefix="stmg-network", initializer=lower_thread_priority
            )
        self._loop = Realtime(runtime, settings, executor.submit, **options)
        self._state = RealtimeState()

    def step(self, frame: Any) -> FrameResult:
        """Answer the next frame at once; raises errors of the network."""
        result, self._state = self._loop.advance(frame, self._state)
        return result

    def stream(self, frames: Iterable[Any]) -> Iterator[FrameResult]:
        """Results of all frames, each as soon as it comes."""
        try:
            for frame in frames:
                yield self.step(frame)
        finally:
            self.close()

    def close(self) -> None:
        """Wait for a run that is under way and let the stream's own worker end."""
        if self._own is not None:
            self._own.shutdown(wait=True, cancel_futures=True)


def _run_network(runtime: Runtime, settings: Settings, frame: Frame, labels: Labels | None, age: int) -> NetworkResult:
    """Compute a frame, and audit the labels that were shown for it."""
    logits = runtime.full(runtime.prepare(frame.image)).logits
    anchor = make_anchor(runtime, logits, frame, settings.corrector, for_blending=False)
    return NetworkResult(anchor, None if labels is None else compare(labels, anchor.labels, age))
