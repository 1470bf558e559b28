"""Comparison: a network on every frame, copied labels, the paper's mode and the three modes of stmg on one video."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from stmg.evaluation.ablate import PAPER_SETTINGS
from stmg.evaluation.accuracy import ConfusionMatrix
from stmg.evaluation.live import LiveFigures, run_live
from stmg.evaluation.speed import WARM_UP
from stmg.evaluation.streams import StreamFigures
from stmg.segmenter import VideoSegmenter
from stmg.streaming.schedulers import AlwaysKey, FixedPeriod, Level
from stmg.streaming.state import FrameResult
from stmg.video.frames import Frame
from stmg.video.labels import Labels

NETWORK, COPIED, PAPER = "network on every frame", "last labels copied", "the paper's mode"
ONLINE, OFFLINE, REALTIME = "stmg online", "stmg offline", "stmg realtime"
COPY_PERIOD = 5


class Run(NamedTuple):
    """A method over all frames."""

    results: list[FrameResult]
    figures: StreamFigures
    fps: float | None
    """None where frames come at times of their own."""
    live: LiveFigures | None = None


def compare(
    segmenter: VideoSegmenter,
    frames: Sequence[Frame],
    truths: Sequence[Labels],
    num_classes: int,
    rate: float,
    on_frame: Callable[[str], None],
) -> dict[str, Run]:
    """Every method on the same frames.

    Those that go frame by frame take turns, so that all meet the same machine. Offline works on several frames at once
    and is timed as a whole. Realtime gets its frames `rate` times a second.

    on_frame: called with the method's name for each frame that is done.
    """
    stepped = _step_in_turns(_steppers(segmenter), frames, on_frame)
    runs = {
        name: Run(results, _figures(results, truths, num_classes), _fps(results)) for name, results in stepped.items()
    }

    started = time.perf_counter()
    offline = []
    for result in segmenter.another().stream(frames, mode="offline"):
        offline.append(result)
        on_frame(OFFLINE)
    fps = len(frames) / (time.perf_counter() - started)
    runs[OFFLINE] = Run(offline, _figures(offline, truths, num_classes), fps)

    answered: list[FrameResult] = []
    live = run_live(segmenter.another(), frames, rate, answered.append, lambda: on_frame(REALTIME))
    seen = [truths[result.index] for result in answered]
    runs[REALTIME] = Run(answered, _figures(answered, seen, num_classes), None, live)
    return runs


def count_methods(segmenter: VideoSegmenter) -> int:
    """How many methods `compare` runs."""
    return len(_steppers(segmenter)) + 2


def _steppers(segmenter: VideoSegmenter) -> dict[str, VideoSegmenter]:
    steppers = {
        NETWORK: segmenter.another(scheduler=AlwaysKey()),
        COPIED: segmenter.another(scheduler=FixedPeriod(COPY_PERIOD, Level.CARRY), motion="none"),
    }
    if segmenter.runtime.has_mask_generator:
        steppers[PAPER] = segmenter.another(**PAPER_SETTINGS)
    return steppers | {ONLINE: segmenter.another()}


def _step_in_turns(
    steppers: dict[str, VideoSegmenter], frames: Sequence[Frame], on_frame: Callable[[str], None]
) -> dict[str, list[FrameResult]]:
    results: dict[str, list[FrameResult]] = {name: [] for name in steppers}
    order = deque(steppers)
    for frame in frames:
        for name in order:
            results[name].append(steppers[name].step(frame))
            on_frame(name)
        order.rotate()  # none always comes first, when the caches are cold
    return results


def _fps(results: Sequence[FrameResult]) -> float:
    """Without the first frames, which also warm the runtime up."""
    counted = results[WARM_UP:] or results
    return 1000 * len(counted) / sum(result.latency_ms for result in counted)


def _figures(results: Sequence[FrameResult], truths: Sequence[Labels], num_classes: int) -> StreamFigures:
    figures = StreamFigures(ConfusionMatrix(num_classes))
    for result, truth in zip(results, truths, strict=True):
        figures.add(result, truth)
    return figures
