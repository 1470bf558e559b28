"""Offline: a frame between two anchors takes its labels from both; for files, and streams that may lag by a window."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

from stmg.streaming.anchors import carry_segmentation, compute_anchor
from stmg.streaming.audit import SELDOM, Audit, Steering, compare
from stmg.streaming.continuity import Timing, add_change, find_break, find_step
from stmg.streaming.correction import Corrector, add_cost
from stmg.streaming.delay import WINDOWS
from stmg.streaming.flow import Map
from stmg.streaming.foreground import Segmentation
from stmg.streaming.motion import make_view
from stmg.streaming.runtime import Runtime
from stmg.streaming.schedulers import AFTER_FIRST_FRAME, Evidence, Level, Scheduler
from stmg.streaming.settings import Settings
from stmg.streaming.state import FrameResult
from stmg.streaming.threads import count_workers, limit_opencv_threads
from stmg.streaming.windows import Computing, Look, Window
from stmg.video.frames import Frame, as_frame

FRAMES_AT_ONCE = WINDOWS + 1
"""That the network is run on; each may have so large a share of the cores."""
SEAM = 1024
"""Every so many frames there is an anchor, whatever the scheduler says, that nothing is remembered across: a long video
can be cut there, and its parts give the labels of the whole."""


class Offline:
    """The loop of a stream that looks at both sides of a frame. Results come in order and do not depend on timing.

    A frame waits until an anchor closes its window, so at most `WINDOWS + 1` windows of the scheduler's `longest`
    frames are in memory. The frames of a window share the cores with the network.
    """

    def __init__(self, runtime: Runtime, settings: Settings, workers: int | None = None) -> None:
        self.runtime, self.settings = runtime.for_throughput(), settings
        self.scheduler, self.motion = settings.scheduler_for("offline"), settings.motion.for_offline()
        corrector = settings.corrector
        self.corrector = corrector if corrector is not None and corrector.between else None
        self.workers = workers or count_workers()

    def stream(self, frames: Iterable[Any]) -> Iterator[FrameResult]:
        """Results of all frames, in order; what is wrong with a frame is raised after those before it."""
        source = _UntilError(frames)
        side_by_side = not self.runtime.one_at_a_time
        with (
            limit_opencv_threads() if side_by_side else nullcontext(),
            ThreadPoolExecutor(
                self.workers,
                "stmg-offline",
                initializer=partial(self.runtime.begin_worker, FRAMES_AT_ONCE) if side_by_side else None,
            ) as pool,
        ):
            waiting: deque[Window] = deque()
            audits = _Audits(self.settings.max_change, self.corrector)
            try:
                # Windows are read and finished in turns: which audits a decision knows of is a matter of order alone.
                for window in self._windows(source, pool, audits):
                    waiting.append(window)
                    if len(waiting) > WINDOWS:
                        yield from self._finish(waiting.popleft(), waiting[0], pool, audits)
                        waiting[0].blend(self.corrector, pool)  # while the next one is read
                while waiting:
                    yield from self._finish(waiting.popleft(), waiting[0] if waiting else None, pool, audits)
            finally:
                pool.shutdown(wait=True, cancel_futures=True)
        if source.error is not None:
            raise source.error

    def _windows(self, frames: Iterable[Frame], pool: ThreadPoolExecutor, audits: _Audits) -> Iterator[Window]:
        """Each frame in one window: those after an anchor, up to and with the next; a start is a window of its own."""
        window: Window | None = None
        before: Look | None = None
        timing, memory, stale = Timing(None), AFTER_FIRST_FRAME, None
        for number, frame in enumerate(frames):
            arrived = time.perf_counter()
            look = Look(
                frame, number if frame.index is None else frame.index, make_view(frame, self.motion.view_width), arrived
            )
            reason = "first frame" if before is None else find_break(frame, before.view.size, timing)
            if before is not None and not reason:
                step = find_step(self.motion, before.view, look.view)
                reason = "cut" if step.is_cut else ""
            if before is None or reason:
                if window is not None and window.looks:  # nothing crosses a break: the frame before it is an anchor too
                    yield window.close(self._compute(window.looks[-1], "last frame", pool))
                audits.restart()
                start = self._compute(look, reason, pool)
                yield Window(self.motion, None, looks=[look], right=start, scene=audits.scene)
                window, memory, stale = Window(self.motion, start, scene=audits.scene), AFTER_FIRST_FRAME, None
            else:
                assert window is not None
                stale = add_change(stale, step.residual, step.flow)
                drift = float(stale.mean())
                evidence = Evidence(drift, drift)
                scheduler = audits.steer(self.scheduler)
                level = Level(scheduler.decide(evidence, memory))
                memory = scheduler.remember(level, evidence, memory)
                ahead = pool.submit(self.motion.estimate, look.view, before.view) if self.motion.both_ways else None
                window.looks.append(
                    replace(look, is_start=False, flow=step.flow, ahead=ahead, changed=stale, drift=drift)
                )
                if level is Level.KEY or number % SEAM == 0:
                    reason = self.scheduler.name if level is Level.KEY else "seam"
                    anchor = self._compute(window.looks[-1], reason, pool)
                    yield window.close(anchor)
                    window, stale = Window(self.motion, anchor, scene=audits.scene), None
            if number % SEAM == 0:
                memory, timing = AFTER_FIRST_FRAME, Timing(None)
            before, timing = look, timing.next(frame)
        if window is not None and window.looks:
            yield window.close(self._compute(window.looks[-1], "last frame", pool))

    def _compute(self, look: Look, reason: str, pool: ThreadPoolExecutor) -> Computing:
        return Computing(reason, pool.submit(compute_anchor, self.runtime, look.frame, self.corrector), look.view)

    def _finish(
        self, window: Window, following: Window | None, pool: ThreadPoolExecutor, audits: _Audits
    ) -> Iterator[FrameResult]:
        """Results of a window: those between its anchors blended side by side in the pool."""
        assert window.right is not None
        *between, last = window.looks
        tasks = window.blend(self.corrector, pool)
        for at, (look, task) in enumerate(zip(between, tasks, strict=True)):
            look = replace(look, distance=min(at + 1, len(between) - at))
            shown, mask = task.result()
            yield self._result(look, shown, Level.CARRY, self.scheduler.name, mask=mask)
        shown, audit = window.right.anchor.result().shown.copy(), audits.audit(window, following)
        yield self._result(last, shown, Level.KEY, window.right.reason, audit)

    def _result(
        self,
        look: Look,
        shown: Segmentation,
        level: Level,
        reason: str,
        audit: Audit | None = None,
        mask: Map | None = None,
    ) -> FrameResult:
        blocks = (level is Level.KEY,) * self.runtime.num_blocks
        frame = look.frame
        cost = self.runtime.cost(frame.size, level, blocks, 1.0, masked=False)
        cost = add_cost(cost, None if mask is None else self.corrector, frame.size)
        return FrameResult(
            labels=shown.labels,
            level=level,
            reason=reason,
            distortion=math.nan if look.changed is None else float(look.changed.mean()),
            drift=look.drift,
            keep=blocks,
            latency_ms=1000 * (time.perf_counter() - look.arrived),
            motion="none" if look.is_start else self.motion.name,
            cost=cost,
            index=look.index,
            time=frame.time,
            image=frame.image,
            changed=look.changed if mask is None else mask,
            palette=self.settings.palette,
            anchor_distance=look.distance,
            corrected=mask is not None,
            probability=shown.probability,
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


class _Audits:
    """What blending the anchors before and after an anchor would have shown there, and the budget steered by it."""

    def __init__(self, max_change: float | None, corrector: Corrector | None) -> None:
        self.max_change, self.corrector = max_change, corrector
        self.scene = 0
        self._steering = Steering(unaudited=SELDOM)

    def restart(self) -> None:
        """A new scene begins; audits of the one before no longer count."""
        self.scene += 1
        self._steering = self._steering.restart()

    def steer(self, scheduler: Scheduler) -> Scheduler:
        """The scheduler with the budget that audits have led to."""
        return self._steering.steer(scheduler, self.max_change)

    def audit(self, window: Window, following: Window | None) -> Audit | None:
        """Of the anchor between two windows; None if it begins or ends a scene, or if another one was of late."""
        if window.left is None or following is None or following.left is not window.right:
            return None
        audit = None
        if self._steering.is_due(self.max_change):
            assert following.right is not None
            if following.right.anchor.exception() is None:  # else it is raised where its own window is finished
                audit = _audit(window, following, self._steering.flicker, self.corrector)
        if window.scene == self.scene:
            self._steering = self._steering.follow(audit, self.max_change)
        return audit


def _audit(window: Window, following: Window, flicker: float | None, corrector: Corrector | None) -> Audit:
    """The anchor that ends a window, against what a window without it would have shown."""
    assert window.left is not None
    assert window.right is not None
    left, anchor = window.left.anchor.result(), window.right.anchor.result()
    before, after = len(window.looks), len(following.looks)
    if before == 1:  # two neighbors computed: what the network itself makes of a frame's difference
        flicker = compare(carry_segmentation(left, window.looks[0].flow).labels, anchor.labels, 1).changed
    both = Window(window.motion, window.left, [*window.looks, *following.looks], following.right)
    shown = both.show(before, corrector)
    return compare(shown.labels, anchor.labels, (before + after + 1) // 2).bring_nearer()._replace(flicker=flicker)
