"""Offline: a frame between two anchors takes its labels from both; for files, and streams that may lag by a window."""

from __future__ import annotations

import math
import os
import time
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from stmg.streaming.anchors import Anchor, Side, blend, compute_anchor, halve
from stmg.streaming.continuity import Timing, add_change, find_break, find_step
from stmg.streaming.flow import Flow, Map, compose, invert
from stmg.streaming.motion import Motion, View, make_view
from stmg.streaming.runtime import Runtime
from stmg.streaming.schedulers import AFTER_FIRST_FRAME, Evidence, Level
from stmg.streaming.settings import StreamSettings
from stmg.streaming.state import FrameResult
from stmg.video.frames import Frame, as_frame
from stmg.video.labels import Labels

STILL = Motion(None, "none")
WINDOWS = 2  # that are computed while the next one is read


class Offline:
    """The loop of a stream that looks at both sides of a frame. Results come in order and do not depend on timing.

    A frame waits until an anchor closes its window, so at most `WINDOWS + 1` windows of the scheduler's `longest`
    frames are in memory. The frames of a window share the cores with the network.
    """

    def __init__(self, runtime: Runtime, settings: StreamSettings, workers: int | None = None) -> None:
        self.runtime, self.settings = runtime, settings
        self.scheduler, self.motion = settings.offline, settings.motion
        self.workers = workers or os.cpu_count() or 1

    def stream(self, frames: Iterable[Any]) -> Iterator[FrameResult]:
        """Results of all frames, in order."""
        with ThreadPoolExecutor(self.workers, thread_name_prefix="stmg-offline") as pool:
            waiting: deque[_Window] = deque()
            try:
                for window in self._windows(frames, pool):
                    waiting.append(window)
                    if len(waiting) > WINDOWS:
                        yield from self._finish(waiting.popleft(), pool)
                while waiting:
                    yield from self._finish(waiting.popleft(), pool)
            finally:
                pool.shutdown(wait=True, cancel_futures=True)

    def _windows(self, frames: Iterable[Any], pool: ThreadPoolExecutor) -> Iterator[_Window]:
        """Each frame in one window: those after an anchor, up to and with the next; a start is a window of its own."""
        window: _Window | None = None
        before: _Look | None = None
        timing, memory, stale = Timing(None), AFTER_FIRST_FRAME, None
        for number, value in enumerate(frames):
            arrived, frame = time.perf_counter(), as_frame(value)
            look = _Look(
                frame, number if frame.index is None else frame.index, make_view(frame, self.motion.view_width), arrived
            )
            reason = "first frame" if before is None else find_break(frame, before.view.size, timing)
            if before is not None and not reason:
                step = find_step(self.motion, before.view, look.view)
                reason = "cut" if step.is_cut else ""
            if before is None or reason:
                if window is not None and window.looks:  # nothing crosses a break: the frame before it is an anchor too
                    yield window.close(self._compute(window.looks[-1], "last frame", pool))
                start = self._compute(look, reason, pool)
                yield _Window(None, looks=[look], right=start)
                window, memory, stale = _Window(start), AFTER_FIRST_FRAME, None
            else:
                assert window is not None
                stale = add_change(stale, step.residual, step.motion.flow)
                drift = float(stale.mean())
                evidence = Evidence(drift, drift)
                level = self.scheduler.decide(evidence, memory)
                memory = self.scheduler.remember(level, evidence, memory)
                window.looks.append(replace(look, motion=step.motion, changed=stale, drift=drift))
                if level is Level.KEY:
                    anchor = self._compute(window.looks[-1], self.scheduler.name, pool)
                    yield window.close(anchor)
                    window, stale = _Window(anchor), None
            before, timing = look, timing.next(frame)
        if window is not None and window.looks:
            yield window.close(self._compute(window.looks[-1], "last frame", pool))

    def _compute(self, look: _Look, reason: str, pool: ThreadPoolExecutor) -> _Computing:
        return _Computing(reason, pool.submit(compute_anchor, self.runtime, look.frame))

    def _finish(self, window: _Window, pool: ThreadPoolExecutor) -> Iterator[FrameResult]:
        """Results of a window: those between its anchors blended side by side in the pool."""
        assert window.right is not None
        *between, last = window.looks
        if between:
            assert window.left is not None
            left, right = window.left.anchor.result(), window.right.anchor.result()
            to_left, to_right = window.flows()
            tasks = [
                pool.submit(_blend, look, Side(left, to_left[at], at + 1), Side(right, to_right[at], len(between) - at))
                for at, look in enumerate(between)
            ]
            for at, (look, task) in enumerate(zip(between, tasks, strict=True)):
                look = replace(look, distance=min(at + 1, len(between) - at))
                yield self._result(look, task.result(), Level.CARRY, self.scheduler.name)
        yield self._result(last, window.right.anchor.result().labels, Level.KEY, window.right.reason)

    def _result(self, look: _Look, labels: Labels, level: Level, reason: str) -> FrameResult:
        blocks = (level is Level.KEY,) * self.runtime.num_blocks
        frame = look.frame
        return FrameResult(
            labels=labels,
            level=level,
            reason=reason,
            distortion=math.nan if look.changed is None else float(look.changed.mean()),
            drift=look.drift,
            keep=blocks,
            latency_ms=1000 * (time.perf_counter() - look.arrived),
            motion=look.motion.source,
            cost=self.runtime.cost(frame.size, level, blocks, 1.0, masked=False),
            index=look.index,
            time=frame.time,
            image=frame.image,
            changed=look.changed,
            palette=self.settings.palette,
            anchor_distance=look.distance,
        )


@dataclass(frozen=True)
class _Look:
    """A frame and how it follows from the one before."""

    frame: Frame
    index: int
    view: View
    arrived: float
    motion: Motion = STILL
    changed: Map | None = None
    drift: float = 0.0
    distance: int = 0
    """Frames to the nearest anchor."""


class _Computing(NamedTuple):
    """An anchor that the network is working on."""

    reason: str
    anchor: Future[Anchor]


@dataclass
class _Window:
    """The frames after an anchor, up to and with the next one."""

    left: _Computing | None
    looks: list[_Look] = field(default_factory=list)
    right: _Computing | None = None

    def close(self, right: _Computing) -> _Window:
        self.right = right
        return self

    def flows(self) -> tuple[list[Flow | None], list[Flow | None]]:
        """From each frame between the anchors to the left one, and to the right one."""
        between = len(self.looks) - 1
        to_left: list[Flow | None] = []
        for look in self.looks[:-1]:
            to_left.append(compose(to_left[-1] if to_left else None, look.motion.flow))
        to_right: list[Flow | None] = [None] * between
        total: Flow | None = None
        for at in reversed(range(between)):
            total = compose(total, invert(self.looks[at + 1].motion.flow))
            to_right[at] = total
        return to_left, to_right


def _blend(look: _Look, left: Side, right: Side) -> Labels:
    return blend(left, right, halve(look.frame.image))
