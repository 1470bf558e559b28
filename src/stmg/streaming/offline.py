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
from stmg.streaming.audit import Audit, SceneSteering
from stmg.streaming.result import FrameResult, make_result
from stmg.streaming.runtime import Runtime
from stmg.streaming.schedulers import AFTER_FIRST_FRAME, WINDOWS_AHEAD, Evidence, Level
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
        source, steering = _UntilError(frames), SceneSteering(self.settings.max_change)
        waiting: deque[Window] = deque()
        begin_worker = None if self.runtime.one_at_a_time else partial(self.runtime.begin_worker, FRAMES_AT_ONCE)
        pool = ThreadPoolExecutor(self.workers, "stmg-offline", begin_worker)
        try:
            # Windows are read and finished in turns, so that which audits a decision knows depends on order alone.
            for window in self._read_windows(source, pool, steering):
                waiting.append(window)
                if len(waiting) > WINDOWS_AHEAD:
                    self._begin_blending(waiting, pool, steering)
                    yield from self._finish_first(waiting, steering)
                    self._begin_blending(waiting, pool, steering)  # of the next one, while another is read
            while waiting:
                self._begin_blending(waiting, pool, steering)
                yield from self._finish_first(waiting, steering)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
        if source.error is not None:
            raise source.error

    def _read_windows(
        self, frames: Iterable[Frame], pool: ThreadPoolExecutor, steering: SceneSteering
    ) -> Iterator[Window]:
        """Read frames into windows, and give the last frame of each to the network."""
        window, memory = Window(None, steering.scene), AFTER_FIRST_FRAME
        before: TrackedFrame | None = None
        for number, frame in enumerate(frames):
            arrived = time.perf_counter()
            tracked = self.tracker.track(frame, before)
            reason, flow_ahead = tracked.break_reason, None
            if before is None or reason:
                if window.frames:  # nothing crosses a break, so the frame before it is an anchor too
                    yield self._close(window, "last frame", pool)
                steering.restart()
                window, memory = Window(None, steering.scene), AFTER_FIRST_FRAME
            else:
                drift = tracked.drift
                scheduler, evidence = steering.steer(self.scheduler), Evidence(drift, drift)
                level = Level(scheduler.decide(evidence, memory))
                memory = scheduler.remember(level, evidence, memory)
                reason = scheduler.name if level is Level.KEY else "seam" if number % SEAM == 0 else ""
                if self.estimator.both_ways:
                    flow_ahead = pool.submit(self.estimator.estimate, tracked.view, before.view)
            window.frames.append(WindowFrame(frame, number, arrived, tracked, flow_ahead))
            if reason:
                yield self._close(window, reason, pool)
                window, tracked = Window(window.frames[-1], steering.scene), tracked.as_computed()
            if number % SEAM == 0:
                memory, tracked = AFTER_FIRST_FRAME, replace(tracked, timing=Timing(frame.time))
            before = tracked
        if window.frames:
            yield self._close(window, "last frame", pool)

    def _close(self, window: Window, reason: str, pool: ThreadPoolExecutor) -> Window:
        """Close the window: submit its last frame to the network."""
        last = window.frames[-1]
        anchor = pool.submit(compute_anchor, self.runtime, last.frame, self.corrector)
        window.frames[-1] = replace(last, anchor=anchor, reason=reason)
        return window

    def _begin_blending(self, waiting: deque[Window], pool: ThreadPoolExecutor, steering: SceneSteering) -> None:
        """Have the first window blended, and its last frame audited where that is due, unless they are under way."""
        window = waiting[0]
        if window.blended is not None:
            return
        window.blended = []
        if window.left is None:
            return
        if len(window.frames) > 1:
            window.blended = WindowBlender(self.estimator, self.corrector, window.left, window.frames).submit(pool)
        if _is_inner(waiting) and steering.is_due:
            window.audit = pool.submit(audit_anchor, self.estimator, self.corrector, window, waiting[1])

    def _finish_first(self, waiting: deque[Window], steering: SceneSteering) -> Iterator[FrameResult]:
        """Finish the first window, remove it from the queue, and return its results."""
        is_inner, window = _is_inner(waiting), waiting.popleft()
        *carried, last = window.frames
        for at, (current, blended) in enumerate(zip(carried, window.blended or (), strict=True), start=1):
            yield self._make_result(current, blended.result(), distance=min(at, len(window.frames) - at))
        segmentation, audit = last.wait_for_anchor().segmentation.copy(), None
        if is_inner:
            audit = steering.follow(None if window.audit is None else window.audit.result(), window.scene)
        yield self._make_result(last, segmentation, audit=audit)

    def _make_result(
        self, current: WindowFrame, segmentation: Segmentation, distance: int = 0, audit: Audit | None = None
    ) -> FrameResult:
        is_anchor = current.anchor is not None
        return make_result(
            self.runtime,
            self.settings.palette,
            current.frame,
            current.number,
            segmentation,
            Level.KEY if is_anchor else Level.CARRY,
            current.reason or self.scheduler.name,
            latency_ms=1000 * (time.perf_counter() - current.arrived),
            computed=is_anchor,
            motion="none" if current.tracked.residual is None else self.estimator.name,
            changed=current.tracked.change,
            drift=current.tracked.drift,
            corrector=None if segmentation.correction is None else self.corrector,
            distance=distance,
            audit=audit,
        )


def _is_inner(waiting: deque[Window]) -> bool:
    """True if an anchor of its scene follows the first window's last frame, which can then be audited."""
    window = waiting[0]
    return window.left is not None and len(waiting) > 1 and waiting[1].left is window.frames[-1]


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
