"""Streams: a segmenter run over labeled video frame by frame, as it would be used, and what that gave and cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from stmg.data.dataset import Dataset, Video
from stmg.data.files import VideoFile
from stmg.evaluation.measuring.accuracy import ConfusionMatrix
from stmg.segmenter import VideoSegmenter
from stmg.streaming.cost import Cost
from stmg.streaming.runtime import Runtime
from stmg.streaming.schedulers import Level
from stmg.streaming.state import FrameResult
from stmg.video.frames import Frame, Image
from stmg.video.labels import Labels
from stmg.video.sources import open_video

MAX_MEMORY = 4e9  # bytes of decoded frames


class Stepper(Protocol):
    """Segments a stream frame by frame: a `VideoSegmenter`, or a baseline."""

    runtime: Runtime

    def reset(self) -> None: ...

    def step(self, frame: Any) -> FrameResult: ...


@dataclass
class StreamFigures:
    """What streams gave and cost."""

    counts: ConfusionMatrix
    levels: Counter[Level] = field(default_factory=Counter)
    costs: list[Cost | None] = field(default_factory=list)
    """Executed by each frame; None where it is not known."""
    kept_shares: list[float] = field(default_factory=list)
    """Of each partial frame, the share of the blocks that ran."""

    @property
    def miou(self) -> float:
        """In percent."""
        return 100 * self.counts.mean_iou()

    @property
    def num_frames(self) -> int:
        return self.levels.total()

    @property
    def cost(self) -> Cost | None:
        """Executed by a mean frame; None where it cannot be counted."""
        return mean_cost(self.costs)

    @property
    def kept_share(self) -> float:
        """Of the blocks on partial frames, those that ran, in percent; NaN without partial frames."""
        return 100 * float(np.mean(self.kept_shares)) if self.kept_shares else float("nan")

    def macs_share(self, whole: Cost | None) -> float:
        """Executed MACs of a mean frame as a share of `whole`, in percent; NaN where they are not counted."""
        return 100 * self.cost.macs / whole.macs if self.cost and whole and whole.macs else float("nan")

    def share(self, level: Level) -> float:
        """Of the frames, in percent."""
        return 100 * self.levels[level] / max(1, self.num_frames)

    def add(self, result: FrameResult, truth: Labels | None) -> None:
        if truth is not None:
            self.counts.add(result.labels, truth)
        self.levels[result.level] += 1
        self.costs.append(result.cost)
        if result.level is Level.PARTIAL and result.keep:
            self.kept_shares.append(result.kept_blocks / len(result.keep))


def run_stream(
    stepper: Stepper, videos: Iterable[Video], size: tuple[int, int], limit: int | None = None
) -> Iterator[tuple[FrameResult, Labels | None]]:
    """Every frame of every video in order, each video from a fresh start, and its truth where there is one."""
    for video in videos:
        stepper.reset()
        for index, frame in read_frames(video, size, limit):
            yield stepper.step(frame), video.truth(index, size)


def read_frames(video: Video, size: tuple[int, int], limit: int | None = None) -> Iterator[tuple[int, Frame]]:
    """Frames of a video with their index; a file is decoded once from its start."""
    if isinstance(video, MemoryVideo):
        yield from enumerate(video.frames[:limit])
        return
    if isinstance(video, VideoFile):
        with open_video(video.path, resize=size, limit=limit) as source:
            yield from enumerate(source)
        return
    for index in range(len(video))[:limit]:
        yield index, Frame(video.image(index, size))


class MemoryVideo:
    """A video, or the start of it, in memory: for streams that are run again and again."""

    def __init__(self, video: Video, size: tuple[int, int], limit: int | None) -> None:
        self.name, self.rate = video.name, video.rate
        self.frames = [frame for _, frame in read_frames(video, size, limit)]
        self.truths = [video.truth(index, size) for index in range(len(self.frames))]
        self.labeled = [index for index, truth in enumerate(self.truths) if truth is not None]

    def __len__(self) -> int:
        return len(self.frames)

    def image(self, index: int, size: tuple[int, int] | None = None) -> Image:
        return self.frames[index].image

    def truth(self, index: int, size: tuple[int, int] | None = None) -> Labels | None:
        return self.truths[index]


def load_into_memory(dataset: Dataset, split: str, size: tuple[int, int], limit: int | None = None) -> Dataset:
    """A split whose videos are in memory, if they fit; else they are read again each time."""
    videos = dataset.videos(split)
    needed = sum(min(len(video), limit or len(video)) for video in videos) * size[0] * size[1] * 4
    if needed > MAX_MEMORY and limit is None:
        return dataset
    return replace(dataset, splits={split: tuple(MemoryVideo(video, size, limit) for video in videos)})


def stream_figures(stepper: Stepper, dataset: Dataset, split: str, size: tuple[int, int]) -> StreamFigures:
    """Run a segmenter over a split as streams; exports compute exactly the blocks that were chosen."""
    figures = StreamFigures(ConfusionMatrix(dataset.num_classes))
    with stepper.runtime.exact_patterns():
        for result, truth in run_stream(stepper, dataset.videos(split), size):
            figures.add(result, truth)
    return figures


def mean_cost(costs: Sequence[Cost | None]) -> Cost | None:
    """Of a mean frame; None where one of them cannot be counted, or there is none."""
    total = Cost()
    for cost in costs:
        if cost is None:
            return None
        total = total.plus(cost)
    return Cost(*(round(value / len(costs)) for value in total)) if costs else None


def base_cost(segmenter: VideoSegmenter, size: tuple[int, int]) -> Cost | None:
    """What a frame of the whole network executes."""
    return segmenter.runtime.cost(size, Level.KEY, (), 1.0, masked=False)
