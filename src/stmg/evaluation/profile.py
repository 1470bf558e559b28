"""Profile: how much of a video repeats, and what that is worth with a network on this machine, before any training."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stmg.errors import VideoError
from stmg.evaluation.accuracy import ConfusionMatrix
from stmg.evaluation.inputs import Model, Subject, count_classes, hide_credentials, open_model
from stmg.evaluation.machine import this_machine
from stmg.evaluation.results import BudgetOutcome, ProfileResult, Size
from stmg.evaluation.speed import mean_ms
from stmg.evaluation.streams import needs_vectors
from stmg.segmenter import VideoSegmenter
from stmg.streaming.cost import Cost
from stmg.streaming.flow import Flow, Map
from stmg.streaming.masks import Masks
from stmg.streaming.runtime import Output, Runtime
from stmg.streaming.schedulers import AlwaysKey, DriftBudget, Level
from stmg.streaming.state import FrameResult
from stmg.video.frames import Frame, Image, as_frame
from stmg.video.labels import MAX_CLASSES, Labels
from stmg.video.sources import open_video

BUDGETS = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.7, 1.0)
WORTH_IT, A_LITTLE = 1.5, 1.15  # gains from which the verdict is so


def profile(
    source: str | Path | Iterable[Any],
    model: Model = "lite0-camvid",
    *,
    frames: int = 150,
    max_changed: float = 0.025,
    size: Size | None = None,
    name: str | None = None,
    on_frame: Callable[[int, int | None], None] | None = None,
) -> ProfileResult:
    """Run the whole network once over the first frames of a video; then play every drift budget over its answers.

    max_changed: share of the labels, 0 to 1, that may differ from the whole network's.
    on_frame: called with the number of frames so far, and of all of them where that is known.
    """
    subject = open_model(model, size, name)
    segmenter = subject.segmenter
    base = VideoSegmenter(segmenter.runtime, scheduler=AlwaysKey())
    seen: list[Frame] = []
    results: list[FrameResult] = []
    replay = _Replay(segmenter.runtime)
    with _open(source, subject, frames) as (video, total):
        for each in video:
            frame = as_frame(each)
            results.append(base.step(frame))
            assert base.state is not None
            replay.remember(frame.image, base.state.logits)
            seen.append(frame)
            if on_frame is not None:
                on_frame(len(seen), total)
    if len(seen) < 2:
        raise VideoError("a video of at least two frames is needed to see what repeats")
    base_ms = float(np.median([result.latency_ms for result in results[1:]]))
    steps = _play(replay, segmenter, DriftBudget(0.0), seen)  # each frame is compared with the one before
    player = _Player(subject, replay, seen, [result.labels for result in results], base_ms)
    plays = [player.play(budget) for budget in BUDGETS]
    budgets = tuple(play.outcome for play in plays)
    carried = [play.carry_ms for play in plays if play.carry_ms is not None]
    best = choose_budget(budgets, max_changed)
    return ProfileResult(
        machine=this_machine(),
        model=subject.name,
        source=_describe(source),
        size=subject.size,
        frames=len(seen),
        cuts=sum(result.reason == "cut" for result in steps),
        runtime=segmenter.runtime.description,
        base_ms=round(base_ms, 3),
        carry_ms=round(carried[-1], 3) if carried else None,
        distortion=tuple(1.0 if np.isnan(result.distortion) else round(result.distortion, 5) for result in steps),
        budgets=budgets,
        max_changed=max_changed,
        best=best,
        verdict=describe_gain(best, max_changed),
    )


def choose_budget(budgets: Iterable[BudgetOutcome], max_changed: float) -> BudgetOutcome | None:
    """The fastest that changes at most this share of the labels."""
    allowed = [outcome for outcome in budgets if outcome.changed <= max_changed]
    return max(allowed, key=lambda outcome: outcome.gain, default=None)


def describe_gain(best: BudgetOutcome | None, max_changed: float) -> str:
    """Whether that is worth it, in a sentence."""
    if best is None or best.gain < A_LITTLE:
        return (
            f"Not worth it: with at most {max_changed:.1%} of the labels changed, this video needs the network on "
            "almost every frame. Use a smaller network, or a smaller frame."
        )
    gain = f"{best.gain:.1f}x faster with {best.changed:.1%} of the labels changed"
    return f"Worth it: {gain}." if best.gain >= WORTH_IT else f"A little: {gain}. A smaller network may give more."


@contextmanager
def _open(
    source: str | Path | Iterable[Any], subject: Subject, frames: int
) -> Iterator[tuple[Iterable[Any], int | None]]:
    """The first frames of a source, and how many there are if that is known."""
    if not isinstance(source, str | Path):
        yield islice(source, frames), None
        return
    vectors = needs_vectors(subject.segmenter)
    with open_video(source, resize=subject.size, limit=frames, motion_vectors=vectors) as video:
        yield video, min(frames, video.num_frames) if video.num_frames else frames


def _describe(source: str | Path | Iterable[Any]) -> str:
    if not isinstance(source, str | Path):
        return "frames"
    text = str(source)
    return hide_credentials(text) if "://" in text else Path(text).name


class _Play(NamedTuple):
    outcome: BudgetOutcome
    carry_ms: float | None


class _Player:
    """Plays schedules over the answers of a network."""

    def __init__(
        self, subject: Subject, replay: _Replay, frames: list[Frame], labels: list[Labels], base_ms: float
    ) -> None:
        self.segmenter, self.replay, self.frames, self.labels = subject.segmenter, replay, frames, labels
        self.base_ms = base_ms
        self.num_classes = count_classes(subject) or MAX_CLASSES
        runtime, image = subject.segmenter.runtime, frames[0]
        self.argmax_ms = mean_ms(lambda: runtime.labels(replay.full(id(image.image)).logits, image.size))

    def play(self, budget: float) -> _Play:
        results = _play(self.replay, self.segmenter, DriftBudget(budget), self.frames)
        carried = [result.latency_ms for result in results if result.level is not Level.KEY]
        keys = [result.latency_ms for result in results if result.level is Level.KEY]
        changed = ConfusionMatrix(self.num_classes)
        for result, whole in zip(results, self.labels, strict=True):
            changed.add(result.labels, whole)
        share = len(keys) / len(results)
        carry_ms = float(np.median(carried)) if carried else None
        # A key frame costs the network and what was spent on finding out that it has to be one.
        key_ms = self.base_ms + max(0.0, float(np.median(keys)) - self.argmax_ms)
        mean = share * key_ms + (1 - share) * (carry_ms or 0.0)
        outcome = BudgetOutcome(
            budget=budget,
            key_share=round(share, 5),
            changed=round(1 - changed.agreement(), 6),
            gain=round(self.base_ms / mean, 4),
        )
        return _Play(outcome, carry_ms)


def _play(replay: _Replay, segmenter: VideoSegmenter, scheduler: DriftBudget, frames: list[Frame]) -> list[FrameResult]:
    # Fused key frames differ from the network's own, for the better; here only what is carried shall count.
    player = VideoSegmenter(replay, scheduler=scheduler, motion=segmenter.settings.motion, fusion=0)
    return [player.step(frame) for frame in frames]


class _Replay:
    """A runtime that already knows its network's answer to each image, so that many schedules can be tried."""

    has_mask_generator = False
    num_blocks = 0
    notes: tuple[str, ...] = ()

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._logits: dict[int, Any] = {}

    @property
    def description(self) -> str:
        return f"replay of {self._runtime.description}"

    @property
    def input_size(self) -> tuple[int, int] | None:
        return self._runtime.input_size

    @property
    def num_classes(self) -> int | None:
        return self._runtime.num_classes

    def remember(self, image: Image, logits: Any) -> None:
        self._logits[id(image)] = logits

    def expect_partial(self) -> None:
        raise NotImplementedError("nothing is partial in a replay")

    def exact_patterns(self) -> AbstractContextManager[None]:
        return nullcontext()

    def prepare(self, image: Image) -> int:
        return id(image)

    def encode(self, prepared: Any) -> Any:
        raise NotImplementedError("nothing is masked in a replay")

    def compare(self, before: Any, now: Any, flow: Flow | None) -> Masks:
        raise NotImplementedError("nothing is masked in a replay")

    def full(self, prepared: int) -> Output:
        return Output(None, self._logits[prepared])

    def partial(self, prepared: Any, masks: Masks, previous: Any, flow: Flow | None, scale: float) -> Output:
        raise NotImplementedError("nothing is partial in a replay")

    def fuse(self, now: Any, before: Any, flow: Flow | None, share: Map) -> Any:
        return self._runtime.fuse(now, before, flow, share)

    def labels(self, logits: Any, size: tuple[int, int]) -> Labels:
        return self._runtime.labels(logits, size)

    def logits_array(self, logits: Any) -> NDArray[np.float32] | None:
        return self._runtime.logits_array(logits)

    def cost(
        self, size: tuple[int, int], level: Level, keep: tuple[bool, ...], scale: float, masked: bool
    ) -> Cost | None:
        return None
