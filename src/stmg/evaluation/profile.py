"""Profile: how much of a video repeats, and what that is worth with a network on this machine, before any training."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from stmg.evaluation.accuracy import ConfusionMatrix
from stmg.evaluation.speed import mean_ms
from stmg.frames import Frame, Image, as_frame
from stmg.motion import Field
from stmg.runtimes import Output, Runtime
from stmg.scheduler import AlwaysKey, DriftBudget, Level
from stmg.segmenter import VideoSegmenter
from stmg.state import Cost, FrameResult, Labels, Map, Masks

BUDGETS = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.7, 1.0)
WORTH, SOME = 1.5, 1.15  # speed-ups from which the verdict is "worth it", and "a little"


@dataclass(frozen=True)
class Chance:
    """What a drift budget would do with the video."""

    budget: float
    key_share: float
    """Of the frames."""
    changed: float
    """Share of the pixels whose label would be another than the whole network's."""
    speed_up: float


@dataclass(frozen=True)
class Profile:
    """What was seen of a video."""

    distortion: list[float]
    """Of each frame against the one before, after motion: what repeats is low, the first frame and cuts are 1."""
    cuts: int
    base_ms: float
    carry_ms: float
    chances: list[Chance]

    def chosen(self, most_changed: float) -> Chance | None:
        """The fastest that changes at most this share of the labels."""
        allowed = [chance for chance in self.chances if chance.changed <= most_changed]
        return max(allowed, key=lambda chance: chance.speed_up, default=None)

    def verdict(self, most_changed: float) -> str:
        chance = self.chosen(most_changed)
        if chance is None or chance.speed_up < SOME:
            return (
                f"Not worth it: with at most {most_changed:.1%} of the labels changed, this video needs the network on "
                "almost every frame. Use a smaller network, or a smaller frame."
            )
        gain = f"{chance.speed_up:.1f}x faster with {chance.changed:.1%} of the labels changed"
        if chance.speed_up < WORTH:
            return f"A little: {gain}. A smaller network may give more."
        return f"Worth it: {gain}."


def profile(
    frames: Iterable[Any], segmenter: VideoSegmenter, num_classes: int, advance: Callable[[], None] | None = None
) -> Profile:
    """Run the whole network once over the frames; then play every budget over what it said."""
    base = VideoSegmenter(segmenter.runtime, scheduler=AlwaysKey())
    seen: list[Frame] = []
    labels: list[Labels] = []
    latencies: list[float] = []
    replay = _Replay(segmenter.runtime)
    for frame in frames:
        frame = as_frame(frame)
        result = base.step(frame)
        assert base.state is not None
        replay.remember(frame.image, base.state.scores)
        seen.append(frame)
        labels.append(result.labels)
        latencies.append(result.latency_ms)
        if advance is not None:
            advance()
    if len(seen) < 2:
        raise ValueError("a video of at least two frames is needed to see what repeats")
    base_ms = float(np.median(latencies[1:]))
    every = _played(replay, segmenter, DriftBudget(0.0), seen)  # each frame is held against the one before
    cuts = sum(result.reason == "cut" for result in every)
    distortion = [1.0 if np.isnan(result.distortion) else result.distortion for result in every]
    deciding = mean_ms(lambda: segmenter.runtime.labels(replay.full(id(seen[0].image)).scores, seen[0].size))
    chances, carry_ms = [], float("nan")
    for budget in BUDGETS:
        results = _played(replay, segmenter, DriftBudget(budget), seen)
        keys = [result.level is Level.KEY for result in results]
        carried = [result.latency_ms for result, key in zip(results, keys, strict=True) if not key]
        looked = [result.latency_ms for result, key in zip(results, keys, strict=True) if key]
        changed = ConfusionMatrix(num_classes)
        for result, whole in zip(results, labels, strict=True):
            changed.add(result.labels, whole)
        share = float(np.mean(keys))
        carry_ms = float(np.median(carried)) if carried else carry_ms
        # A key frame costs the network and what was spent on finding out that it has to be one.
        key_ms = base_ms + max(0.0, float(np.median(looked)) - deciding)
        mean = share * key_ms + (1 - share) * (carry_ms if carried else 0.0)
        chances.append(Chance(budget, share, 1 - changed.agreement(), base_ms / mean))
    return Profile(distortion, cuts, base_ms, carry_ms, chances)


def _played(
    replay: _Replay, segmenter: VideoSegmenter, scheduler: DriftBudget, frames: list[Frame]
) -> list[FrameResult]:
    # Fused key frames differ from the network's own, for the better; here only what is carried shall count.
    player = VideoSegmenter(replay, scheduler=scheduler, motion=segmenter.motion, fusion=0)
    return [player.step(frame) for frame in frames]


class _Replay:
    """A runtime that already knows what its network says of each image, so that many schedules can be tried."""

    has_mask_generator = False
    num_blocks = 0
    notes: tuple[str, ...] = ()

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._scores: dict[int, Any] = {}

    def remember(self, image: Image, scores: Any) -> None:
        self._scores[id(image)] = scores

    def expect_partial(self) -> None:
        raise NotImplementedError("nothing is partial in a replay")

    def prepare(self, image: Image) -> int:
        return id(image)

    def encode(self, prepared: Any) -> Any:
        raise NotImplementedError("nothing is masked in a replay")

    def compare(self, before: Any, now: Any, path: Field | None) -> Masks:
        raise NotImplementedError("nothing is masked in a replay")

    def full(self, prepared: int) -> Output:
        return Output(None, self._scores[prepared])

    def partial(self, prepared: Any, masks: Masks, previous: Any, path: Field | None, scale: float) -> Output:
        raise NotImplementedError("nothing is partial in a replay")

    def fused(self, now: Any, before: Any, path: Field | None, share: Map) -> Any:
        return self._runtime.fused(now, before, path, share)

    def labels(self, scores: Any, size: tuple[int, int]) -> Labels:
        return self._runtime.labels(scores, size)

    def cost(
        self, size: tuple[int, int], level: Level, keep: tuple[bool, ...], scale: float, masked: bool
    ) -> Cost | None:
        return None
