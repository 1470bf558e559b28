"""Online: each frame answered before the next is taken, looking only backwards; the paper's setting."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from stmg.streaming.anchors import Anchor, carry_corrected, make_anchor
from stmg.streaming.audit import UNSTEERED, Audit, Steering, compare
from stmg.streaming.flow import Flow, Map, warp
from stmg.streaming.masks import Masks
from stmg.streaming.motion import NoMotion
from stmg.streaming.result import FrameResult, make_result
from stmg.streaming.runtime import Runtime
from stmg.streaming.schedulers import AFTER_FIRST_FRAME, Evidence, Level, Memory
from stmg.streaming.segmentation import Segmentation, warp_segmentation
from stmg.streaming.settings import Settings
from stmg.streaming.tracker import Lookback, TrackedFrame, Tracker
from stmg.video.frames import Frame, as_frame
from stmg.video.labels import Labels

Prepare = Callable[[], Any]
"""Gives the network's input for a frame, in the runtime's own arrays."""


@dataclass(frozen=True, slots=True)
class FrameState:
    """Everything a frame leaves for the next one of its stream."""

    tracked: TrackedFrame
    """The newest frame."""
    anchor: Anchor
    """The last computed frame."""
    lookback: Lookback
    """From the newest frame to that one."""
    features: Any
    """Backbone features of the anchor, in the runtime's own arrays; None if nothing can blend them."""
    logits: Any
    """Logits of the anchor, in the runtime's own arrays."""
    encoded: Any
    """The mask generator's features of the anchor; None without a mask generator."""
    memory: Memory = AFTER_FIRST_FRAME
    """What the scheduler remembers."""
    unrefreshed: Map | None = None
    """(h, w): the change that partial frames since the last key frame did not compute; None: nothing."""
    shown: Segmentation | None = None
    """What the newest frame shows, if it was computed or corrected; None: it was only warped."""
    steering: Steering = UNSTEERED


class Online:
    """The loop of one stream without its memory: `advance` takes the state before a frame and gives the one after."""

    def __init__(self, runtime: Runtime, settings: Settings) -> None:
        self.runtime = runtime
        self.scheduler = settings.scheduler_for("online")
        self.max_change = settings.max_change
        self.corrector = settings.corrector
        self.tracker = Tracker(settings.motion)
        self.palette = settings.palette
        self.partial_scale = settings.partial_scale
        reuses = self.scheduler.reuses
        self.fusion = settings.fusion if reuses and not isinstance(settings.motion, NoMotion) else 0.0
        self.uses_masks = runtime.has_mask_generator and self.scheduler.refreshes
        """True if the mask generator runs. Where no frame is ever partial, motion alone shows what changed."""
        masking = settings.masking if self.uses_masks else replace(settings.masking, gain=1.0)
        self.masking = masking if reuses else replace(masking, spatial="fresh")

    def advance(self, value: Any, state: FrameState | None, number: int = 0) -> tuple[FrameResult, FrameState]:
        """The result of a frame and the state after it, from the state before it."""
        started = time.perf_counter()
        frame = as_frame(value)
        image = cache(lambda: self.runtime.prepare(frame.image))  # carried frames never need it
        tracked = self.tracker.observe(frame, None if state is None else state.tracked)
        if state is None or tracked.break_reason:
            decision, after = self._start(frame, tracked, image, state)
        elif not self.fusion and state.steering.steer(self.scheduler, self.max_change).foresee(state.memory):
            decision, after = self._compute_foreseen(frame, tracked, image, state)
        else:
            tracked = self.tracker.add_motion(tracked, state.tracked)
            if tracked.break_reason:
                decision, after = self._start(frame, tracked, image, state)
            else:
                decision, after = self._follow(frame, tracked, image, state, number)
        result = make_result(
            self.runtime,
            self.palette,
            frame,
            number,
            decision.shown.copy(),  # the state keeps its own
            decision.level,
            decision.reason,
            latency_ms=1000 * (time.perf_counter() - started),
            computed=decision.level is not Level.CARRY,
            motion="none" if decision.changed is None else self.tracker.estimator.name,
            changed=None if decision.changed is None else decision.changed.copy(),
            drift=decision.drift,
            keep=decision.keep,
            scale=self.partial_scale,
            masked=self.uses_masks,
            corrector=self.corrector if decision.ran_corrector else None,
            distance=after.lookback.distance,
            audit=decision.audit,
        )
        return result, after

    def _start(
        self, frame: Frame, tracked: TrackedFrame, image: Prepare, before: FrameState | None
    ) -> tuple[_Decision, FrameState]:
        """A key frame that takes nothing from the frames before."""
        # Encoded first: a network may write on its input.
        encoded = self.runtime.encode(image()) if self.uses_masks else None
        output = self.runtime.full(image())
        anchor = self._make_anchor(output.logits, frame)
        steering = Steering() if before is None else before.steering.restart()
        state = FrameState(
            tracked,
            anchor,
            Lookback(tracked.view),
            output.features,
            output.logits,
            encoded,
            shown=anchor.shown,
            steering=steering,
        )
        return _Decision(Level.KEY, tracked.break_reason, anchor.shown, self._all_blocks), state

    def _compute_foreseen(
        self, frame: Frame, tracked: TrackedFrame, image: Prepare, state: FrameState
    ) -> tuple[_Decision, FrameState]:
        """A key frame that was decided without looking at it. Only its audit, which is rare, needs motion."""
        decision, after = self._start(frame, tracked, image, state)
        memory = self.scheduler.remember(Level.KEY, Evidence(float("nan"), 0.0), state.memory)
        audit, ran_corrector = None, False
        if state.memory.since_key and state.steering.is_due(self.max_change):
            moved = self.tracker.add_motion(tracked, state.tracked)
            if not moved.break_reason:
                audit = self._audit(frame, moved, decision.shown.labels, state, self._look_back(moved, state))
                ran_corrector = self._would_correct(state)
        after = replace(after, memory=memory, steering=state.steering.follow(audit, self.max_change))
        decision = decision._replace(reason=self.scheduler.name, audit=audit, ran_corrector=ran_corrector)
        return decision, after

    def _follow(
        self, frame: Frame, tracked: TrackedFrame, image: Prepare, state: FrameState, number: int
    ) -> tuple[_Decision, FrameState]:
        """Motion, masks, level; then the whole network, the kept part of it blended with what was, or no network."""
        lookback = self._look_back(tracked, state)
        encoded = self.runtime.encode(image()) if self.uses_masks else None
        masks = self._make_masks(encoded, tracked, state, lookback.flow)
        unrefreshed = None if state.unrefreshed is None else warp(state.unrefreshed, tracked.flow)
        drift = masks.changed if unrefreshed is None else masks.changed + unrefreshed
        evidence = Evidence(float(masks.changed.mean()), float(drift.mean()))
        scheduler = state.steering.steer(self.scheduler, self.max_change)
        level = Level(scheduler.decide(evidence, state.memory))
        memory = scheduler.remember(level, evidence, state.memory)
        after = replace(state, tracked=tracked, lookback=lookback, unrefreshed=unrefreshed, memory=memory)
        decided = _Decision(
            level, self.scheduler.name, state.anchor.shown, self._no_blocks, masks.changed, evidence.drift
        )
        if level is Level.CARRY:
            shown, ran_corrector = self._carry(frame, tracked, state, lookback.flow)
            return decided._replace(shown=shown, ran_corrector=ran_corrector), replace(
                after, shown=shown if ran_corrector else None
            )
        if level is Level.KEY:
            output = self.runtime.full(image())
            logits = self._fuse(output.logits, state.logits, lookback.flow, masks.changed)
            keep, unrefreshed = self._all_blocks, None
        else:
            used = self.masking(masks, number)
            output = self.runtime.partial(image(), used, state.features, lookback.flow, self.partial_scale)
            keep, logits, unrefreshed = used.keep, output.logits, drift * (1 - used.changed)
        anchor, audit = self._make_anchor(logits, frame), None
        if level is Level.KEY and self.scheduler.reuses:
            if not self._would_correct(state) or state.steering.is_due(self.max_change):
                audit = self._audit(frame, tracked, anchor.labels, state, lookback)
            after = replace(after, steering=state.steering.follow(audit, self.max_change))
        after = replace(
            after,
            tracked=tracked.as_computed(),
            anchor=anchor,
            lookback=Lookback(tracked.view),
            features=output.features,
            logits=logits,
            encoded=encoded,
            unrefreshed=unrefreshed,
            shown=anchor.shown,
        )
        ran_corrector = audit is not None and self._would_correct(state)
        return decided._replace(shown=anchor.shown, keep=keep, audit=audit, ran_corrector=ran_corrector), after

    def _look_back(self, tracked: TrackedFrame, state: FrameState) -> Lookback:
        return state.lookback.extend(tracked.flow).refine(self.tracker.estimator, tracked.view)

    def _audit(
        self, frame: Frame, tracked: TrackedFrame, labels: Labels, state: FrameState, lookback: Lookback
    ) -> Audit:
        """The labels of a key frame, as shown, against those it would have shown without the network."""
        carried, _ = self._carry(frame, tracked, state, lookback.flow)
        return compare(carried.labels, labels, lookback.distance, state.steering.flicker)

    def _carry(
        self, frame: Frame, tracked: TrackedFrame, state: FrameState, flow: Flow | None
    ) -> tuple[Segmentation, bool]:
        """What a frame shows without the network, and whether the corrector ran on it.

        With a corrector every second frame is corrected; the others are warped from the frame before, which is nearly
        as good as correcting them, at half the cost.
        """
        if self.corrector is not None and state.shown is not None:
            return warp_segmentation(state.shown, tracked.flow, self.runtime.threshold), False
        shown = carry_corrected(self.corrector, state.anchor, flow, frame.image)
        return shown, shown.correction is not None

    def _would_correct(self, state: FrameState) -> bool:
        """True if carrying a frame after this state runs the corrector."""
        return self.corrector is not None and state.anchor.evidence is not None and state.shown is None

    def _make_anchor(self, logits: Any, frame: Frame) -> Anchor:
        return make_anchor(self.runtime, logits, frame, self.corrector, for_blending=False)

    def _make_masks(self, encoded: Any, tracked: TrackedFrame, state: FrameState, flow: Flow | None) -> Masks:
        """What changed since the last computed frame, by the mask generator or by what motion leaves unexplained."""
        if self.uses_masks:
            return self.runtime.compare(state.encoded, encoded, flow)
        assert tracked.change is not None
        return Masks(self._all_blocks, tracked.change)

    def _fuse(self, now: Any, before: Any, flow: Flow | None, changed: Map) -> Any:
        """Average the logits with those of the frame before, as far as they show the same."""
        if not self.fusion:
            return now
        share: Map = self.fusion * np.clip(1 - 2 * changed, 0, 1)
        return self.runtime.fuse(now, before, flow, share)

    @property
    def _all_blocks(self) -> tuple[bool, ...]:
        return (True,) * self.runtime.num_blocks

    @property
    def _no_blocks(self) -> tuple[bool, ...]:
        return (False,) * self.runtime.num_blocks


class _Decision(NamedTuple):
    """The level of a frame, what it was based on, and what the frame shows."""

    level: Level
    reason: str
    shown: Segmentation
    keep: tuple[bool, ...]
    changed: Map | None = None
    drift: float = 0.0
    audit: Audit | None = None
    ran_corrector: bool = False
