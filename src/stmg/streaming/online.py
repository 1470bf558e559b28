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
from stmg.streaming.runtime import Output, Runtime
from stmg.streaming.schedulers import AFTER_FIRST_FRAME, Evidence, Level, Memory
from stmg.streaming.segmentation import Segmentation, warp_segmentation
from stmg.streaming.settings import Settings
from stmg.streaming.tracker import Lookback, TrackedFrame, Tracker
from stmg.video.frames import Frame, as_frame

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
    """Flow and distance from the newest frame to the anchor."""
    features: Any
    """Backbone features of the anchor, in the runtime's own arrays; None if nothing can blend them."""
    logits: Any
    """Logits of the anchor, in the runtime's own arrays."""
    encoded: Any
    """The mask generator's features of the anchor; None without a mask generator."""
    number: int = 0
    """Number of frames so far."""
    memory: Memory = AFTER_FIRST_FRAME
    """The scheduler's memory."""
    unrefreshed: Map | None = None
    """Change that partial frames since the last key frame did not compute, (h, w); None if there is none."""
    segmentation: Segmentation | None = None
    """Segmentation of the newest frame if it was computed or corrected; None if it was only warped."""
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

    def advance(self, value: Any, state: FrameState | None) -> tuple[FrameResult, FrameState]:
        """Compute a frame's result and the state after it. The state before the first frame is None."""
        started = time.perf_counter()
        frame, number = as_frame(value), 0 if state is None else state.number
        image = cache(lambda: self.runtime.prepare(frame.image))  # carried frames never need it
        tracked = self.tracker.observe(frame, None if state is None else state.tracked)
        if state is None or tracked.break_reason:
            decision, after = self._start(frame, tracked, image, state)
        elif not self.fusion and state.steering.steer(self.scheduler, self.max_change).foresee(state.memory):
            decision, after = self._compute_foreseen(frame, tracked, image, state)
        else:
            tracked = self.tracker.add_motion(tracked, state.tracked)
            follow = self._start if tracked.break_reason else self._follow
            decision, after = follow(frame, tracked, image, state)
        ran_corrector = (
            state is not None
            and self._would_correct(state)
            and (decision.level is Level.CARRY or decision.audit is not None)  # an audit carries too, to compare
        )
        result = make_result(
            self.runtime,
            self.palette,
            frame,
            number,
            decision.segmentation.copy(),  # the state keeps its own
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
            corrector=self.corrector if ran_corrector else None,
            distance=after.lookback.distance,
            audit=decision.audit,
        )
        return result, replace(after, number=number + 1)

    def _start(
        self, frame: Frame, tracked: TrackedFrame, image: Prepare, before: FrameState | None
    ) -> tuple[_Decision, FrameState]:
        """Compute a key frame that uses nothing from the frames before."""
        encoded = self._encode(image)
        output = self.runtime.full(image())
        after = self._make_state(frame, tracked, output, output.logits, encoded)
        steering = Steering() if before is None else before.steering.restart()
        return _Decision(Level.KEY, tracked.break_reason, after.anchor.segmentation), replace(after, steering=steering)

    def _compute_foreseen(
        self, frame: Frame, tracked: TrackedFrame, image: Prepare, state: FrameState
    ) -> tuple[_Decision, FrameState]:
        """Compute a key frame that was scheduled without motion. Only its audit, which is rare, needs motion."""
        decision, after = self._start(frame, tracked, image, state)
        memory = self.scheduler.remember(Level.KEY, Evidence(float("nan"), 0.0), state.memory)
        audit = None
        if state.memory.since_key and state.steering.is_due(self.max_change):
            moved = self.tracker.add_motion(tracked, state.tracked)
            if not moved.break_reason:
                audit = self._audit(frame, moved, after.anchor, state, self._look_back(moved, state))
        after = replace(after, memory=memory, steering=state.steering.follow(audit, self.max_change))
        return decision._replace(reason=self.scheduler.name, audit=audit), after

    def _follow(
        self, frame: Frame, tracked: TrackedFrame, image: Prepare, state: FrameState
    ) -> tuple[_Decision, FrameState]:
        """Motion, masks, level; then the whole network, the kept part of it blended with what was, or no network."""
        lookback = self._look_back(tracked, state)
        encoded = self._encode(image)
        masks = self._make_masks(encoded, tracked, state, lookback.flow)
        unrefreshed = None if state.unrefreshed is None else warp(state.unrefreshed, tracked.flow)
        drift = masks.changed if unrefreshed is None else masks.changed + unrefreshed
        evidence = Evidence(float(masks.changed.mean()), float(drift.mean()))
        scheduler, steering = state.steering.steer(self.scheduler, self.max_change), state.steering
        level = Level(scheduler.decide(evidence, state.memory))
        memory = scheduler.remember(level, evidence, state.memory)
        keep = audit = None
        if level is Level.CARRY:
            segmentation = self._carry(frame, tracked, state, lookback.flow)
            after = replace(state, tracked=tracked, lookback=lookback)
            after = replace(after, segmentation=segmentation if self._would_correct(state) else None)
        elif level is Level.KEY:
            output = self.runtime.full(image())
            logits = self._fuse(output.logits, state.logits, lookback.flow, masks.changed)
            after = self._make_state(frame, tracked, output, logits, encoded)
            segmentation, unrefreshed = after.anchor.segmentation, None
            if self.scheduler.reuses:
                if not self._would_correct(state) or steering.is_due(self.max_change):
                    audit = self._audit(frame, tracked, after.anchor, state, lookback)
                steering = steering.follow(audit, self.max_change)
        else:
            used = self.masking(masks, state.number)
            output = self.runtime.partial(image(), used, state.features, lookback.flow, self.partial_scale)
            after = self._make_state(frame, tracked, output, output.logits, encoded)
            segmentation, keep, unrefreshed = after.anchor.segmentation, used.keep, drift * (1 - used.changed)
        decision = _Decision(level, scheduler.name, segmentation, keep, masks.changed, evidence.drift, audit)
        return decision, replace(after, memory=memory, unrefreshed=unrefreshed, steering=steering)

    def _encode(self, image: Prepare) -> Any:
        """Compute the mask generator's features of a frame. Call it first: the network may overwrite its input."""
        return self.runtime.encode(image()) if self.uses_masks else None

    def _make_state(self, frame: Frame, tracked: TrackedFrame, output: Output, logits: Any, encoded: Any) -> FrameState:
        """Make the state after a computed frame, without what depends on the frames before.

        logits: those of `output`, which may have been fused with others.
        """
        anchor = make_anchor(self.runtime, logits, frame, self.corrector, for_blending=False)
        lookback, segmentation = Lookback(tracked.view), anchor.segmentation
        return FrameState(
            tracked.as_computed(), anchor, lookback, output.features, logits, encoded, segmentation=segmentation
        )

    def _look_back(self, tracked: TrackedFrame, state: FrameState) -> Lookback:
        return state.lookback.extend(tracked.flow).refine(self.tracker.estimator, tracked.view)

    def _audit(
        self, frame: Frame, tracked: TrackedFrame, anchor: Anchor, state: FrameState, lookback: Lookback
    ) -> Audit:
        """Compare the labels of a key frame with those it would have shown without the network."""
        carried = self._carry(frame, tracked, state, lookback.flow)
        return compare(carried.labels, anchor.labels, lookback.distance, state.steering.flicker)

    def _carry(self, frame: Frame, tracked: TrackedFrame, state: FrameState, flow: Flow | None) -> Segmentation:
        """Segment a frame without the network.

        With a corrector, every second frame is corrected. The others are warped from the frame before: nearly as good,
        at half the cost.
        """
        if self.corrector is not None and state.segmentation is not None:
            return warp_segmentation(state.segmentation, tracked.flow, self.runtime.threshold)
        return carry_corrected(self.corrector, state.anchor, flow, frame.image)

    def _would_correct(self, state: FrameState) -> bool:
        """True if carrying a frame after this state runs the corrector."""
        return self.corrector is not None and state.anchor.reference is not None and state.segmentation is None

    def _make_masks(self, encoded: Any, tracked: TrackedFrame, state: FrameState, flow: Flow | None) -> Masks:
        """Mark the changes since the last computed frame, from the mask generator or the flow's residual."""
        if self.uses_masks:
            return self.runtime.compare(state.encoded, encoded, flow)
        assert tracked.change is not None
        return Masks((True,) * self.runtime.num_blocks, tracked.change)

    def _fuse(self, now: Any, before: Any, flow: Flow | None, changed: Map) -> Any:
        """Average the logits with those of the frame before, as far as they show the same."""
        if not self.fusion:
            return now
        share: Map = self.fusion * np.clip(1 - 2 * changed, 0, 1)
        return self.runtime.fuse(now, before, flow, share)


class _Decision(NamedTuple):
    """The level of a frame, what it was based on, and what the frame shows."""

    level: Level
    reason: str
    segmentation: Segmentation
    keep: tuple[bool, ...] | None = None
    """The blocks of a partial frame that ran."""
    changed: Map | None = None
    drift: float = 0.0
    audit: Audit | None = None
