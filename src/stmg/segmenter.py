"""VideoSegmenter: frames in, labels out, computing again only what changed."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from stmg.frames import Frame, as_frame
from stmg.masking import Masking
from stmg.motion import (
    Field,
    Motion,
    MotionEstimator,
    NoMotion,
    View,
    composed,
    estimator_named,
    move,
    unexplained,
    view_of,
)
from stmg.overlay import default_palette
from stmg.runtimes import Runtime, runtime_for
from stmg.scheduler import AFTER_FIRST_FRAME, Evidence, Level, Scheduler, scheduler_named
from stmg.state import FrameResult, FrameState, Labels, Map, Masks

# Mean unexplained change above which two frames do not show one scene. On CamVid's 15 Hz drive neighbours reach 0.12,
# frames a third of a second apart 0.24; frames of different drives start at 0.39.
CUT = 0.37
# A frame later than this many times the last interval follows a gap.
GAP = 4.0


class VideoSegmenter:
    """Segments one video stream. Several may share one runtime, each with its own state, in threads of their own.

    network: an accelerated network, a plain torch module, a runtime, or any callable from an RGB image to logits.
    scheduler: which frames get how much: drift, paper, fixed, per-frame, always-key, or a scheduler.
    motion: how the previous state is moved onto the current frame: dis, codec, none, or an estimator.
    masking: ablations of the masks.
    partial_scale: the scale at which partial frames are computed.
    fusion: what the moved scores of the frame before count for in a key frame's, where nothing changed; 0 for nothing.
    palette: (C, 3) RGB colours of the classes.
    """

    def __init__(
        self,
        network: Any,
        *,
        scheduler: str | Scheduler = "drift",
        motion: str | MotionEstimator = "dis",
        masking: Masking | None = None,
        partial_scale: float = 1.0,
        fusion: float = 0.5,
        palette: Any = None,
        class_names: tuple[str, ...] = (),
        device: str | None = None,
    ) -> None:
        if not 0 < partial_scale <= 1:
            raise ValueError(f"partial_scale is above 0 and at most 1; got {partial_scale}")
        if not 0 <= fusion < 1:
            raise ValueError(f"fusion is at least 0 and below 1; got {fusion}")
        self._asked = {
            "scheduler": scheduler,
            "motion": motion,
            "masking": masking,
            "partial_scale": partial_scale,
            "fusion": fusion,
            "palette": palette,
            "class_names": class_names,
        }
        self.runtime: Runtime = runtime_for(network, device)
        self.scheduler = scheduler_named(scheduler) if isinstance(scheduler, str) else scheduler
        self.motion = estimator_named(motion) if isinstance(motion, str) else motion
        self.masking = masking or Masking()
        if not self.scheduler.reuses:
            self.masking = Masking("fresh", self.masking.pruning, self.masking.seed)
        self.partial_scale = partial_scale
        self.fusion = 0.0 if isinstance(self.motion, NoMotion) or not self.scheduler.reuses else fusion
        self.asks_masks = self.runtime.has_mask_generator and self.scheduler.refreshes
        """Whether the mask generator runs. Where no frame is ever partial, motion alone tells what changed."""
        if self.scheduler.refreshes:
            self.runtime.expect_partial()
        self.palette = default_palette(255) if palette is None else np.asarray(palette, np.uint8)
        self.class_names = class_names
        self.state: FrameState | None = None
        self.num_frames = 0

    def step(self, frame: Any) -> FrameResult:
        """Segment the next frame of the stream: RGB uint8 as numpy, torch, PyAV frame or `Frame`."""
        result, self.state = self.advance(frame, self.state, self.num_frames)
        self.num_frames += 1
        return result

    def stream(self, frames: Iterable[Any]) -> Iterator[FrameResult]:
        """Segment a whole video, from a fresh start."""
        self.reset()
        if self.motion.needs_vectors and hasattr(frames, "keep_motion_vectors"):
            frames.keep_motion_vectors()
        for frame in frames:
            yield self.step(frame)

    def reset(self) -> None:
        """Forget the stream; the next frame is a key frame."""
        self.state = None
        self.num_frames = 0

    def another(self, **settings: Any) -> VideoSegmenter:
        """A segmenter for another stream, over the same weights and settings, but for those that are given."""
        return VideoSegmenter(self.runtime, **(self._asked | settings))

    def advance(self, frame: Any, state: FrameState | None, number: int = 0) -> tuple[FrameResult, FrameState]:
        """One frame and the state before it in, its result and the state after it out; nothing is remembered here."""
        started = time.perf_counter()
        frame = as_frame(frame)
        index = number if frame.index is None else frame.index
        view = replace(view_of(frame), index=index)
        image = _Once(lambda: self.runtime.prepare(frame.image))
        reason = _break(frame, state)
        if state is None or reason:
            told, after = self._start(frame, view, image, reason)
        elif not self.fusion and self.scheduler.foresee(state.memory):  # nobody need look at the frame before
            told, after = self._start(frame, view, image, self.scheduler.name)
            memory = self.scheduler.remember(Level.KEY, told.evidence, state.memory)
            after = replace(after, memory=memory, interval=_interval(frame, state))
        else:
            told, after = self._follow(frame, view, image, state, number)
        latency = 1000 * (time.perf_counter() - started)
        result = FrameResult(
            labels=told.labels.copy(),  # the state keeps its own
            level=told.level,
            reason=told.reason,
            distortion=told.evidence.distortion,
            drift=told.evidence.drift,
            keep=told.keep,
            latency_ms=latency,
            motion=told.motion,
            cost=self.runtime.cost(frame.size, told.level, told.keep, self.partial_scale, self.asks_masks),
            index=index,
            time=frame.time,
            image=frame.image,
            changed=None if told.changed is None else told.changed.copy(),
            palette=self.palette,
        )
        return result, after

    def _start(self, frame: Frame, view: View, image: _Once, reason: str) -> tuple[_Told, FrameState]:
        """A key frame that owes nothing to the frames before."""
        # Encoded first: a network may write on its input.
        encoded = self.runtime.encode(image()) if self.asks_masks else None
        output = self.runtime.full(image())
        labels = self.runtime.labels(output.scores, frame.size)
        told = _Told(Level.KEY, reason, Evidence(math.nan, 0.0), self._all_blocks, "none", None, labels)
        return told, FrameState(
            view=view,
            time=frame.time,
            interval=None,
            features=output.features,
            scores=output.scores,
            encoded=encoded,
            labels=labels,
            path=None,
            stale=None,
            debt=None,
            memory=AFTER_FIRST_FRAME,
        )

    def _follow(
        self, frame: Frame, view: View, image: _Once, state: FrameState, number: int
    ) -> tuple[_Told, FrameState]:
        """Motion, masks, level; then the whole network, the kept part of it blended with what was, or no network."""
        motion = self.motion.between(state.view, view)
        left = unexplained(state.view, view, motion.field)
        if float(left.mean()) > CUT:
            return self._start(frame, view, image, "cut")
        path = composed(state.path, motion.field)
        encoded = self.runtime.encode(image()) if self.asks_masks else None
        masks = self._masks(encoded, state, motion, left, path)
        debt = None if state.debt is None else move(state.debt, motion.field)
        drift = masks.changed if debt is None else masks.changed + debt
        evidence = Evidence(float(masks.changed.mean()), float(drift.mean()))
        level = self.scheduler.decide(evidence, state.memory)
        keep = self._no_blocks
        after = FrameState(
            view=view,
            time=frame.time,
            interval=_interval(frame, state),
            features=state.features,
            scores=state.scores,
            encoded=state.encoded,
            labels=state.labels,
            path=path,
            stale=masks.changed,
            debt=debt,
            memory=self.scheduler.remember(level, evidence, state.memory),
        )
        if level is Level.CARRY:
            labels = move(state.labels, path, nearest=True)
        else:
            if level is Level.KEY:
                keep = self._all_blocks
                output, debt = self.runtime.full(image()), None
                scores = self._fused(output.scores, state.scores, path, masks.changed)
            else:
                used = self.masking(masks, number)
                keep = used.keep
                output = self.runtime.partial(image(), used, state.features, path, self.partial_scale)
                keep = keep if output.keep is None else output.keep
                scores, debt = output.scores, drift * (1 - used.changed)
            labels = self.runtime.labels(scores, frame.size)
            after = replace(
                after,
                features=output.features,
                scores=scores,
                encoded=encoded,
                labels=labels,
                path=None,
                stale=None,
                debt=debt,
            )
        name = self.scheduler.name
        return _Told(level, name, evidence, keep, motion.source, masks.changed, labels), after

    def _masks(self, encoded: Any, state: FrameState, motion: Motion, left: Map, path: Field | None) -> Masks:
        """What changed since the last computed frame: as the mask generator sees it, or as motion leaves it over."""
        if self.asks_masks:
            return self.runtime.compare(state.encoded, encoded, path)
        if state.stale is not None:
            left = np.minimum(left + move(state.stale, motion.field), 1)
        return Masks(self._all_blocks, left)

    def _fused(self, now: Any, before: Any, path: Field | None, changed: Map) -> Any:
        """Two looks at the same thing are better than one, as far as it is the same thing."""
        if not self.fusion:
            return now
        share: Map = self.fusion * np.clip(1 - 2 * changed, 0, 1)
        return self.runtime.fused(now, before, path, share)

    @property
    def _all_blocks(self) -> tuple[bool, ...]:
        return (True,) * self.runtime.num_blocks

    @property
    def _no_blocks(self) -> tuple[bool, ...]:
        return (False,) * self.runtime.num_blocks


class _Told(NamedTuple):
    """What was decided and made of one frame."""

    level: Level
    reason: str
    evidence: Evidence
    keep: tuple[bool, ...]
    motion: str
    changed: Map | None
    labels: Labels


class _Once:
    """A value made when it is first asked for: carried frames never ask for the network's input."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._value: Any = None

    def __call__(self) -> Any:
        if self._value is None:
            self._value = self._make()
        return self._value


def _interval(frame: Frame, state: FrameState) -> float | None:
    return None if frame.time is None or state.time is None else frame.time - state.time


def _break(frame: Frame, state: FrameState | None) -> str:
    """Why a frame cannot follow from the one before; empty if it can."""
    if state is None:
        return "first frame"
    if state.view.size != frame.size:
        return "size change"
    passed = _interval(frame, state)
    if passed is not None:
        late = state.interval is not None and passed > max(GAP * state.interval, 0.2)
        if passed < 0 or late:
            return "gap"
    return ""
