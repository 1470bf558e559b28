"""Offline: a frame between two anchors takes its labels from both; for files, and streams that may lag by a window."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any

from stmg.streaming.anchors import compute_anchor
from stmg.streaming.audit import AUDIT_PERIOD, Audit, Steering
from stmg.streaming.result import FrameResult, make_result
from stmg.streaming.runtime import Runtime
from stmg.streaming.schedulers import AFTER_FIRST_FRAME, WINDOWS_AHEAD, Evidence, Level, Scheduler
from stmg.streaming.segmentation import Segmentation
from stmg.streaming.settings import Settings
from stmg.streaming.threads import count_workers, limit_opencv_while_working
from stmg.streaming.tracker import Timing, TrackedFrame, Tracker
from stmg.streaming.windows import Window, WindowBlender, WindowFrame, audit_anchor
from stmg.video.frames import Frame, as_frame

FRAMES_AT_ONCE = WINDOWS_AHEAD + 1
"""Frames that the network runs on at the same time; each may have so large a share of the cores."""
SEAM = 1024
"""Force an anchor every so many frames and reset all state there, so that a long video can be split."""


class Offline:
    """The loop of a stream that looks at both sides of a frame. Results come in order and do not depend on timing.

    A frame waits until an anchor closes its window, so at most `WINDOWS_AHEAD + 1` windows of the scheduler's `longest`
    frames are in memory. The frames of a window share the cores with the network.
    """

    def __init__(self, runtime: Runtime, settings: Settings, workers: int | None = None) -> None:
        self.runtime, self.settings = runtime.for_throughput(), settings
        self.scheduler, self.estimator = settings.scheduler_for("offline"), settings.motion.for_offline()
        self.tracker = Tracker(self.estimator)
        corrector = settings.corrector
        self.corrector = corrector if corrector is not None and corrector.between else None
        self.workers = workers or count_workers()

    def stream(self, frames: Iterable[Any]) -> Iterator[FrameResult]:
        """Results of all frames, in order. What is wrong with a frame is raised after the results before it."""
        if self.runtime.one_at_a_time:
            return self._stream(frames)
        return limit_opencv_while_working(self._stream(frames))

    def _stream(self, frames: Iterable[Any]) -> Generator[FrameResult]:
        source, steering = _UntilError(frames), _SceneSteering(self.settings.max_change)
        waiting: deque[Window] = deque()
        begin_worker = None if self.runtime.one_at_a_time else partial(self.runtime.begin_worker, FRAMES_AT_ONCE)
        pool = ThreadPoolExecutor(self.workers, "stmg-offline", begin_worker)
        try:
            # Windows are read and finished in turns, so that which audits a decision knows depends on order alone.
            for window in self._read_windows(source, pool, steering):
                waiting.append(window)
                if len(waiting) > WINDOWS_AHEAD:
                    self._begin(waiting, pool, steering)
                    yield from self._finish(waiting.popleft(), steering)
                    self._begin(waiting, pool, steering)  # it is worked on while the next one is read
            while waiting:
                self._begin(waiting, pool, steering)
                yield from self._finish(waiting.popleft(), steering)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
        if source.error is not None:
            raise source.error

    def _read_windows(
        self, frames: Iterable[Frame], pool: ThreadPoolExecutor, steering: _SceneSteering
    ) -> Iterator[Window]:
        """Read frames into windows, and have their last frames computed."""
        window: Window | None = None
        before: TrackedFrame | None = None
        memory = AFTER_FIRST_FRAME
        for number, frame in enumerate(frames):
            arrived = time.perf_counter()
            tracked = self.tracker.track(frame, before)
            current = WindowFrame(frame, number, arrived, tracked)
            reason = tracked.break_reason
            if window is None or reason:
                if window is not None and window.frames:  # nothing crosses a break: the frame before is an anchor too
                    yield self._close(window, "last frame", pool)
                steering.restart()
                window = Window(None, steering.scene, [current])
                memory = AFTER_FIRST_FRAME
            else:
                scheduler = steering.steer(self.scheduler)
                evidence = Evidence(tracked.drift, tracked.drift)
                level = Level(scheduler.decide(evidence, memory))
                memory = scheduler.remember(level, evidence, memory)
                if self.estimator.both_ways and before is not None:
                    ahead = pool.submit(self.estimator.estimate, tracked.view, before.view)
                    current = replace(current, flow_ahead=ahead)
                window.frames.append(current)
                reason = self.scheduler.name if level is Level.KEY else "seam" if number % SEAM == 0 else ""
            if reason:
                yield self._close(window, reason, pool)
                window, tracked = Window(window.frames[-1], steering.scene), tracked.as_computed()
            if number % SEAM == 0:
                memory, tracked = AFTER_FIRST_FRAME, replace(tracked, timing=Timing(frame.time))
            before = tracked
        if window is not None and window.frames:
            yield self._close(window, "last frame", pool)

    def _close(self, window: Window, reason: str, pool: ThreadPoolExecutor) -> Window:
        """The window with its last frame given to the network."""
        last = window.frames[-1]
        anchor = pool.submit(compute_anchor, self.runtime, last.frame, self.corrector)
        window.frames[-1] = replace(last, anchor=anchor, reason=reason)
        return window

    def _begin(self, waiting: deque[Window], pool: ThreadPoolExecutor, steering: _SceneSteering) -> None:
        """Have the next window blended, and its last frame audited where that is due, unless they are under way."""
        window = waiting[0]
        if window.between is not None:
            return
        window.between = []
        if window.left is None:
            return
        if len(window.frames) > 1:
            window.between = WindowBlender(self.estimator, self.corrector, window.left, window.frames).submit(pool)
        following = waiting[1] if len(waiting) > 1 else None
        if following is not None and following.left is window.frames[-1]:
            window.is_inner = True
            if steering.is_due:
                window.audit = pool.submit(audit_anchor, self.estimator, self.corrector, window, following)

    def _finish(self, window: Window, steering: _SceneSteering) -> Iterator[FrameResult]:
        """The results of a window."""
        *carried, last = window.frames
        for at, (current, shown) in enumerate(zip(carried, window.between or (), strict=True), start=1):
            distance = min(at, len(window.frames) - at)
            yield self._make_result(current, shown.result(), Level.CARRY, self.scheduler.name, distance)
        shown_last = last.computed.shown.copy()
        audit = steering.follow(window)
        yield self._make_result(last, shown_last, Level.KEY, last.reason, audit=audit)

    def _make_result(
        self,
        current: WindowFrame,
        shown: Segmentation,
        level: Level,
        reason: str,
        distance: int = 0,
        audit: Audit | None = None,
    ) -> FrameResult:
        return make_result(
            self.runtime,
            self.settings.palette,
            current.frame,
            current.number,
            shown,
            level,
            reason,
            latency_ms=1000 * (time.perf_counter() - current.arrived),
            computed=level is Level.KEY,
            motion="none" if current.tracked.residual is None else self.estimator.name,
            changed=current.tracked.change,
            drift=current.tracked.drift,
            corrector=None if shown.correction is None else self.corrector,
            distance=distance,
            audit=audit,
        )


class _UntilError:
    """Frames of a source up to the first error, which is kept."""

    def __init__(self, frames: Iterable[Any]) -> None:
        self.frames = frames
        self.error: Exception | None = None

    def __iter__(self) -> Iterator[Frame]:
        try:
            for value in self.frames:
                yield as_frame(value)
        except Exception as error:
            self.error = error


class _SceneSteering:
    """The steering of the scene that is being read."""

    def __init__(self, max_change: float | None) -> None:
        self.max_change = max_change
        self.scene = 0
        self._steering = Steering(unaudited=AUDIT_PERIOD)

    @property
    def is_due(self) -> bool:
        """True if the next anchor to be finished should be audited."""
        return self._steering.is_due(self.max_change)

    def restart(self) -> None:
        """Begin a new scene. Audits of the one before no longer count."""
        self.scene += 1
        self._steering = self._steering.restart()

    def steer(self, scheduler: Scheduler) -> Scheduler:
        """The scheduler with the budget that audits have led to."""
        return self._steering.steer(scheduler, self.max_change)

    def follow(self, window: Window) -> Audit | None:
        """The audit of a window's last frame, waited for, and taken into account if its scene is still read."""
        audit = None if window.audit is None else self._steering.add_flicker(window.audit.result())
        if window.is_inner and window.scene == self.scene:
            self._steering = self._steering.follow(audit, self.max_change)
        return audit
