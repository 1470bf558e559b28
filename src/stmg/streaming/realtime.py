"""Realtime: the network runs in the background, and every frame is answered at once by warping the newest anchor."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from stmg.streaming.anchors import Anchor, carry_corrected, compute_anchor
from stmg.streaming.audit import Audit, Steering, compare
from stmg.streaming.continuity import Timing, find_break, find_step
from stmg.streaming.correction import add_cost
from stmg.streaming.cost import Cost
from stmg.streaming.flow import Flow, Map, compose, find_positions, is_outside
from stmg.streaming.foreground import Segmentation
from stmg.streaming.motion import View, make_view, measure_change, refine_flow
from stmg.streaming.runtime import Runtime
from stmg.streaming.schedulers import Level
from stmg.streaming.settings import Settings
from stmg.streaming.state import FrameResult
from stmg.video.frames import Frame, as_frame
from stmg.video.labels import IGNORE, Labels

# Mean change since the last frame given to the network above which the next one is worth computing. A still scene under
# sensor noise stays below.
WORTH = 0.04
LAST = 19  # the lowest priority of a thread
LONGEST = 30  # frames after which a run is worth it in any case: what change does not show cannot last


@dataclass
class _Reference:
    """A frame that was given to the network, and how the newest frame follows from it."""

    anchor: Future[Anchor]
    view: View
    scene: int
    flow: Flow | None = None
    """From the newest frame to it."""
    age: int = 0
    """Frames since it."""
    answer: Labels | None = None
    """What was shown for it while the network had just begun; None if that was of another scene, or nothing."""
    answer_age: int = 0
    """Of the anchor that was shown then."""
    charged: bool = False
    """Whether a frame has what it costs."""


class Realtime:
    """The loop of a live stream. Only the first frame waits for the network, as there is nothing to show before it.

    executor: runs the network. Streams that share one share its workers; a stream never has more than one run waiting.
    worth: mean change since the last computed frame above which another run is worth it.
    longest: frames after which one is in any case.
    """

    def __init__(
        self,
        runtime: Runtime,
        settings: Settings,
        executor: Executor | None = None,
        clock: Callable[[], float] = time.perf_counter,
        worth: float = WORTH,
        longest: int = LONGEST,
    ) -> None:
        self.runtime, self.settings, self.motion = runtime, settings, settings.motion
        self.longest = longest
        self._own = None
        if executor is None:
            self._own = ThreadPoolExecutor(1, thread_name_prefix="stmg-network", initializer=step_back)
        self._executor = executor if executor is not None else self._own
        self._clock, self.worth = clock, worth
        self.reset()

    def reset(self) -> None:
        """Forget the stream; a run that is under way is not shown."""
        self._before: View | None = None
        self._timing = Timing(None)
        self._shown: _Reference | None = None
        self._running: _Reference | None = None
        self._scene = 0
        self._number = 0
        self._counted: tuple[int, int] | None = None  # size of the last frame whose cost was counted
        self._owed: Cost | None = Cost()  # of finished runs that could not be counted when they began
        self._steering = Steering()

    def close(self) -> None:
        """Wait for a run that is under way and let the worker end."""
        if self._own is not None:
            self._own.shutdown(wait=True, cancel_futures=True)

    def stream(self, frames: Iterable[Any]) -> Iterator[FrameResult]:
        """Results of all frames, each as soon as it comes."""
        self.reset()
        try:
            for frame in frames:
                yield self.step(frame)
        finally:
            self.close()

    def step(self, value: Any) -> FrameResult:
        """Answer a frame at once, with the newest labels there are; errors of the network are raised here."""
        arrived, frame = self._clock(), as_frame(value)
        view, flow, residual, reason = make_view(frame, self.motion.view_width), None, None, "realtime"
        broken = "first frame" if self._before is None else find_break(frame, self._before.size, self._timing)
        if self._before is not None and not broken:
            step = find_step(self.motion, self._before, view)
            broken, flow, residual = "cut" if step.is_cut else "", step.flow, step.residual
        if broken:
            self._scene, reason = self._scene + 1, broken
            self._steering = self._steering.restart()
        for reference in (self._shown, self._running):
            if reference is not None:
                reference.age += 1
                if reference.scene == self._scene:
                    reference.flow = compose(reference.flow, flow)
        audit = self._take_over()
        shown = self._shown
        if shown is not None and shown.scene == self._scene:
            shown.flow = refine_flow(self.motion, shown.flow, shown.view, view, shown.age)
        started = self._start(frame, view)
        if self._shown is None:
            assert self._running is not None
            self._running.anchor.result()
            self._take_over()
        self._before, self._timing = view, self._timing.next(frame)
        result = self._result(frame, reason, residual, started, audit, arrived)
        self._number += 1
        return result

    def _take_over(self) -> Audit | None:
        """Show the anchor that is finished; what it says against what was shown for it.

        One whose scene is over is stale, but newer than what was shown: where every frame is a cut there is no other.
        """
        if self._running is None or not self._running.anchor.done():
            return None
        taken, self._running = self._running, None
        anchor = taken.anchor.result()  # raises what went wrong
        self._shown = taken
        self._charge(taken)
        if taken.answer is None or taken.scene != self._scene:
            taken.answer = None
            return None
        audit = compare(taken.answer, anchor.labels, taken.answer_age, self._steering.flicker)
        self._steering = self._steering.follow(audit, self.settings.max_change)
        taken.answer = None  # as large as a frame, and done with
        return audit

    def _start(self, frame: Frame, view: View) -> bool:
        """Give the newest frame to the network, if it is free and something changed."""
        if self._running is not None or not self._is_worth(view):
            return False
        assert self._executor is not None
        is_counted = frame.size == self._counted
        future = self._executor.submit(self._compute, frame)
        self._running = _Reference(future, view, self._scene)
        if is_counted:  # else it is charged when it is finished
            self._charge(self._running)
        return True

    def _compute(self, frame: Frame) -> Anchor:
        anchor = compute_anchor(self.runtime, frame, self.settings.corrector)
        # What a frame costs may be counted on a pass of the network, once per size: here no frame waits for it.
        self._count(frame.size)
        self._counted = frame.size
        return anchor

    def _count(self, size: tuple[int, int]) -> Cost | None:
        return self.runtime.cost(size, Level.KEY, (True,) * self.runtime.num_blocks, 1.0, masked=False)

    def _charge(self, reference: _Reference) -> None:
        """Have the frame that is being answered pay for a run, unless one has."""
        if not reference.charged:
            cost, reference.charged = self._count(reference.view.size), True
            self._owed = None if cost is None or self._owed is None else self._owed.plus(cost)

    def _is_worth(self, view: View) -> bool:
        shown = self._shown
        if shown is None or shown.scene != self._scene or shown.age >= self.longest:
            return True
        change = measure_change(shown.view, view, shown.flow)
        change[is_outside(find_positions(shown.flow, change.shape), change.shape)] = 1
        return float(change.mean()) > self.worth * self._steering.factor

    def _result(
        self,
        frame: Frame,
        reason: str,
        residual: Map | None,
        started: bool,
        audit: Audit | None,
        arrived: float,
    ) -> FrameResult:
        assert self._shown is not None
        anchor, stale = self._shown.anchor.result(), self._shown.scene != self._scene
        corrector, mask = self.settings.corrector if self._shown.age else None, None
        if stale:
            answer = _still(anchor.shown, frame.size)
        else:
            answer, mask = carry_corrected(corrector, anchor, self._shown.flow, frame.image)
        if stale or self._shown.flow is None:
            answer = answer.copy()  # the caller may write on what it gets
        if started and self._running is not None and not stale:
            self._running.answer, self._running.answer_age = answer.labels.copy(), self._shown.age
        level = Level.KEY if self._shown.age == 0 and not stale else Level.CARRY
        blocks = (level is Level.KEY,) * self.runtime.num_blocks
        cost, self._owed = self._owed, Cost()
        cost = add_cost(cost, None if mask is None else corrector, frame.size)
        return FrameResult(
            labels=answer.labels,
            level=level,
            reason=reason,
            distortion=float("nan") if residual is None else float(residual.mean()),
            drift=0.0,
            keep=blocks,
            latency_ms=1000 * (self._clock() - arrived),
            motion="none" if residual is None else self.motion.name,
            cost=cost,
            index=self._number if frame.index is None else frame.index,
            time=frame.time,
            image=frame.image,
            changed=residual if mask is None else mask,
            corrected=mask is not None,
            palette=self.settings.palette,
            anchor_distance=self._shown.age,
            stale=stale,
            probability=answer.probability,
            audit=audit,
        )


def step_back() -> None:
    """Let other threads come before this one and those it starts, where the system has priorities of threads.

    Without it the threads of the network share the cores with the frame that is to be answered at once.
    """
    if sys.platform == "linux":
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), LAST)


def _still(shown: Segmentation, size: tuple[int, int]) -> Segmentation:
    """What was shown of another scene; no labels and no foreground at all where it does not fit."""
    if shown.labels.shape == size:
        return shown
    nowhere = None if shown.probability is None else np.zeros(size, np.float32)
    return Segmentation(np.full(size, IGNORE, np.uint8), nowhere)
