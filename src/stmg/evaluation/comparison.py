"""Comparison: a network on every frame, copied labels, the paper's mode and the three modes of stmg on one video."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from stmg.evaluation.inputs import EVERY_FRAME, PAPER_SETTINGS
from stmg.evaluation.measuring.accuracy import ConfusionMatrix
from stmg.evaluation.measuring.live import LiveFigures, run_live
from stmg.evaluation.measuring.speed import WARM_UP, time_interleaved
from stmg.evaluation.measuring.streams import StreamFigures
from stmg.segmenter import VideoSegmenter
from stmg.streaming.schedulers import FixedPeriod, Level, PaperScheduler
from stmg.streaming.state import FrameResult
from stmg.video.frames import Frame
from stmg.video.labels import Labels

NETWORK, COPIED, PAPER = "network on every frame", "last labels copied", "the paper's mode"
ONLINE, OFFLINE, REALTIME = "stmg online", "stmg offline", "stmg realtime"
COPY_PERIOD = 5
AFTER_PARTIAL = 0.9  # γ2, the more careful of the paper's two: on streets it loses a third less than 0.95


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
    and is timed as a whole, once before them and once after. Realtime gets its frames `rate` times a second.

    on_frame: called with the method's name for each frame that is done.
    """
    offline, seconds = _run_offline(segmenter, frames, on_frame)
    steppers = _steppers(segmenter)
    results: dict[str, list[FrameResult]] = {name: [] for name in steppers}

    def add(name: str, repeat: int, index: int, result: FrameResult) -> None:
        results[name].append(result)
        on_frame(name)

    times = time_interleaved(steppers, frames, 1, add)
    runs = {
        name: Run(each, _figures(each, truths, num_classes), times[name].fps()[0]) for name, each in results.items()
    }

    _, more = _run_offline(segmenter, frames, on_frame)
    runs[OFFLINE] = Run(offline, _figures(offline, truths, num_classes), 2 * len(frames) / (seconds + more))

    shown: list[FrameResult] = []
    live = run_live(segmenter.another(), [frames], rate, shown.append, lambda: on_frame(REALTIME))
    runs[REALTIME] = Run(shown, _figures(shown, truths, num_classes), None, live)
    return runs


def count_passes(segmenter: VideoSegmenter) -> int:
    """How many times `compare` goes over the frames."""
    return len(_steppers(segmenter)) + 3


def _run_offline(
    segmenter: VideoSegmenter, frames: Sequence[Frame], on_frame: Callable[[str], None]
) -> tuple[list[FrameResult], float]:
    """All frames in offline mode, warmed up as the others are, and the seconds that they took."""
    for _ in segmenter.another().stream(frames[:WARM_UP], mode="offline"):
        pass
    started = time.perf_counter()
    results = []
    for result in segmenter.another().stream(frames, mode="offline"):
        results.append(result)
        on_frame(OFFLINE)
    return results, time.perf_counter() - started


def _steppers(segmenter: VideoSegmenter) -> dict[str, VideoSegmenter]:
    steppers = {
        NETWORK: segmenter.another(**EVERY_FRAME),
        COPIED: segmenter.another(
            scheduler=FixedPeriod(COPY_PERIOD, Level.CARRY), motion="none", max_change=None, corrector=None
        ),
    }
    if segmenter.runtime.has_mask_generator:
        careful = PaperScheduler(after_partial=AFTER_PARTIAL)
        steppers[PAPER] = segmenter.another(**{**PAPER_SETTINGS, "scheduler": careful})
    return steppers | {ONLINE: segmenter.another()}


def _figures(results: Sequence[FrameResult], truths: Sequence[Labels], num_classes: int) -> StreamFigures:
    figures = StreamFigures(ConfusionMatrix(num_classes))
    for result, truth in zip(results, truths, strict=True):
        figures.add(result, truth)
    return figures
