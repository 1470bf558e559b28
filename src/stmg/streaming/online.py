"""Online: each frame answered before the next is taken, looking only backwards; the paper's setting."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from stmg.streaming.anchors import read_logits
from stmg.streaming.audit import Audit, Steering, compare
from stmg.streaming.continuity import Step, Timing, add_change, find_break, find_step
from stmg.streaming.correction import AnchorEvidence, add_cost, make_evidence, shrink_view, warp_corrected
from stmg.streaming.flow import Flow, Map, compose, warp
from stmg.streaming.foreground import Segmentation, read_segmentation, warp_segmentation
from stmg.streaming.masks import Masks
from stmg.streaming.motion import NoMotion, View, make_view, refine_flow
from stmg.streaming.runtime import Runtime
from stmg.streaming.schedulers import AFTER_FIRST_FRAME, Evidence, Level
from stmg.streaming.settings import Settings
from stmg.streaming.state import Answer, FrameResult, FrameState
from stmg.video.frames import Frame, as_frame
from stmg.video.labels import Labels

Prepare = Callable[[], Any]
"""Gives the network's input for a frame, in the runtime's own arrays."""


class Online:
    """The loop of one stream without its memory: `advance` takes the state before a frame and gives the one after."""

    def __init__(self, runtime: Runtime, settings: Settings) -> None:
        self.runtime = runtime
        self.scheduler = settings.scheduler_for("online")
        self.max_change = settings.max_change
        self.corrector = settings.corrector
        self.motion, self.view_width = settings.motion, settings.motion.view_width
        self.palette = settings.palette
        self.partial_scale = settings.partial_scale
        reuses = self.scheduler.reuses
        self.fusion = settings.fusion if reuses and not isinstance(self.motion, NoMotion) else 0.0
        self.uses_masks = runtime.has_mask_generator and self.scheduler.refreshes
        """Whether the mask generator runs. Where no frame is ever partial, motion alone shows what changed."""
        masking = settings.masking if self.uses_masks else replace(settings.masking, gain=1.0)
        self.masking = masking if reuses else replace(masking, spatial="fresh")

    def advance(self, value: Any, state: FrameState | None, number: int = 0) -> tuple[FrameResult, FrameState]:
        """One frame and the state before it in, its result and the state after it out; nothing is remembered here."""
        started = time.perf_counter()
        frame = as_frame(value)
        index = number if frame.index is None else frame.index
        view = make_view(frame, self.view_width)
        image = cache(lambda: self.runtime.prepare(frame.image))  # carried frames never need it
        reason = "first frame" if state is None else find_break(frame, state.view.size, state.timing)
        if state is None or reason:
            decision, after = self._start(frame, view, image, reason, state)
        elif not self.fusion and state.steering.steer(self.scheduler, self.max_change).foresee(state.memory):
            decision, after = self._foreseen(frame, view, image, state)
        else:
            decision, after = self._follow(frame, view, image, state, number)
        latency = 1000 * (time.perf_counter() - started)
        level, keep = decision.level, decision.keep
        shown = decision.answer.shown.copy()  # the state keeps its own
        cost = self.runtime.cost(frame.size, level, keep, self.partial_scale, self.uses_masks)
        for_audit = state is not None and decision.audit is not None and self._would_correct(state)
        cost = add_cost(cost, self.corrector if decision.answer.corrected or for_audit else None, frame.size)
        result = FrameResult(
            labels=shown.labels,
            level=level,
            reason=decision.reason,
            distortion=decision.evidence.distortion,
            drift=decision.evidence.drift,
            keep=keep,
            latency_ms=latency,
            motion=decision.motion,
            cost=cost,
            index=index,
            time=frame.time,
            image=frame.image,
            changed=None if decision.changed is None else decision.changed.copy(),
            palette=self.palette,
            anchor_distance=after.distance,
            corrected=decision.answer.mask is not None,
            probability=shown.probability,
            audit=decision.audit,
        )
        return result, after

    def _start(
        self, frame: Frame, view: View, image: Prepare, reason: str, before: FrameState | None
    ) -> tuple[_Decision, FrameState]:
        """A key frame that owes nothing to the frames before."""
        # Encoded first: a network may write on its input.
        encoded = self.runtime.encode(image()) if self.uses_masks else None
        output = self.runtime.full(image())
        shown = read_segmentation(self.runtime, output.logits, frame.size)
        decision = _Decision(Level.KEY, reason, Evidence(math.nan, 0.0), self._all_blocks, "none", None, Answer(shown))
        return decision, FrameState(
            view=view,
            anchor_view=view,
            timing=Timing(frame.time),
            features=output.features,
            logits=output.logits,
            encoded=encoded,
            labels=shown.labels,
            flow=None,
            stale=None,
            unrefreshed=None,
            memory=AFTER_FIRST_FRAME,
            probability=shown.probability,
            evidence=self._evidence(frame, shown, output.logits),
            settled=decision.answer,
            steering=Steering() if before is None else before.steering.restart(),
        )

    def _foreseen(self, frame: Frame, view: View, image: Prepare, state: FrameState) -> tuple[_Decision, FrameState]:
        """A key frame that was decided without looking at it; motion is found for its audit alone, and seldom."""
        decision, after = self._start(frame, view, image, self.scheduler.name, state)
        memory = self.scheduler.remember(Level.KEY, decision.evidence, state.memory)
        audit = None
        if state.memory.since_key and state.steering.is_due(self.max_change):
            step = find_step(self.motion, state.view, view)
            if not step.is_cut:
                audit = self._audit(
                    frame, decision.answer.shown.labels, state, step.flow, self._find_flow(view, state, step.flow)
                )
        steering = state.steering.follow(audit, self.max_change)
        after = replace(after, memory=memory, timing=state.timing.next(frame), steering=steering)
        return decision._replace(audit=audit), after

    def _follow(
        self, frame: Frame, view: View, image: Prepare, state: FrameState, number: int
    ) -> tuple[_Decision, FrameState]:
        """Motion, masks, level; then the whole network, the kept part of it blended with what was, or no network."""
        step = find_step(self.motion, state.view, view)
        if step.is_cut:
            return self._start(frame, view, image, "cut", state)
        flow = self._find_flow(view, state, step.flow)
        encoded = self.runtime.encode(image()) if self.uses_masks else None
        masks = self._masks(encoded, state, step, flow)
        unrefreshed = None if state.unrefreshed is None else warp(state.unrefreshed, step.flow)
        drift = masks.changed if unrefreshed is None else masks.changed + unrefreshed
        evidence = Evidence(float(masks.changed.mean()), float(drift.mean()))
        scheduler = state.steering.steer(self.scheduler, self.max_change)
        level = Level(scheduler.decide(evidence, state.memory))
        keep, audit = self._no_blocks, None
        after = replace(
            state,
            view=view,
            timing=state.timing.next(frame),
            flow=flow,
            stale=masks.changed,
            unrefreshed=unrefreshed,
            memory=scheduler.remember(level, evidence, state.memory),
            distance=state.distance + 1,
        )
        if level is Level.CARRY:
            answer = self._carry(frame, state, step.flow, flow)
            after = replace(after, settled=answer if answer.corrected else None)
        else:
            if level is Level.KEY:
                keep, unrefreshed = self._all_blocks, None
                output = self.runtime.full(image())
                logits = self._fuse(output.logits, state.logits, flow, masks.changed)
            else:
                used = self.masking(masks, number)
                output = self.runtime.partial(image(), used, state.features, flow, self.partial_scale)
                keep, logits, unrefreshed = used.keep, output.logits, drift * (1 - used.changed)
            answer = Answer(read_segmentation(self.runtime, logits, frame.size))
            shown = answer.shown
            if level is Level.KEY and self.scheduler.reuses:
                if not self._would_correct(state) or state.steering.is_due(self.max_change):
                    audit = self._audit(frame, shown.labels, state, step.flow, flow)
                after = replace(after, steering=state.steering.follow(audit, self.max_change))
            after = replace(
                after,
                features=output.features,
                logits=logits,
                encoded=encoded,
                labels=shown.labels,
                anchor_view=view,
                flow=None,
                stale=None,
                unrefreshed=unrefreshed,
                probability=shown.probability,
                evidence=self._evidence(frame, shown, logits),
                settled=answer,
                distance=0,
            )
        changed = masks.changed if answer.mask is None else answer.mask
        decision = _Decision(level, self.scheduler.name, evidence, keep, self.motion.name, changed, answer, audit)
        return decision, after

    def _find_flow(self, view: View, state: FrameState, step: Flow | None) -> Flow | None:
        """From a frame to the last computed one, given the way to the frame before."""
        flow = compose(state.flow, step)
        return refine_flow(self.motion, flow, state.anchor_view, view, state.distance + 1)

    def _audit(self, frame: Frame, labels: Labels, state: FrameState, step: Flow | None, flow: Flow | None) -> Audit:
        """What a key frame says, fused as it is shown, against what it would have shown without the network."""
        carried = self._carry(frame, state, step, flow).shown.labels
        return compare(carried, labels, state.distance + 1, state.steering.flicker)

    def _carry(self, frame: Frame, state: FrameState, step: Flow | None, flow: Flow | None) -> Answer:
        """The last computed labels, warped.

        With a corrector every second frame is corrected; the others are warped from the frame before, which is nearly
        as good as correcting them, at half the cost.
        """
        threshold = self.runtime.threshold
        if self.corrector is not None and state.settled is not None:
            shown, mask, _ = state.settled
            return Answer(warp_segmentation(shown, step, threshold), None if mask is None else warp(mask, step))
        before = Segmentation(state.labels, state.probability)
        shown, mask = warp_corrected(self.corrector, before, state.evidence, flow, frame.image, threshold)
        return Answer(shown, mask, mask is not None)

    def _would_correct(self, state: FrameState) -> bool:
        """Whether carrying a frame after this state runs the corrector."""
        return self.corrector is not None and state.evidence is not None and state.settled is None

    def _evidence(self, frame: Frame, shown: Segmentation, logits: Any) -> AnchorEvidence | None:
        if self.corrector is None:
            return None
        array = read_logits(self.runtime, logits, shown)
        return make_evidence(shrink_view(frame.image), shown, array, self.corrector.num_classes)

    def _masks(self, encoded: Any, state: FrameState, step: Step, flow: Flow | None) -> Masks:
        """What changed since the last computed frame, by the mask generator or by what motion leaves unexplained."""
        if self.uses_masks:
            return self.runtime.compare(state.encoded, encoded, flow)
        return Masks(self._all_blocks, add_change(state.stale, step.residual, step.flow))

    def _fuse(self, now: Any, before: Any, flow: Flow | None, changed: Map) -> Any:
        """Two looks at the same thing are better than one, as far as it is the same thing."""
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
    """The level of a frame, what it was based on, and what it shows."""

    level: Level
    reason: str
    evidence: Evidence
    keep: tuple[bool, ...]
    motion: str
    changed: Map | None
    answer: Answer
    audit: Audit | None = None
