"""Streams: a segmenter run over labelled video frame by frame, as it would be used, and what that gave and cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from stmg.data.dataset import Dataset, Video
from stmg.evaluation.accuracy import ConfusionMatrix
from stmg.scheduler import Level
from stmg.segmenter import VideoSegmenter
from stmg.state import FrameResult, Labels


@dataclass
class StreamFigures:
    """What streams gave and cost."""

    counts: ConfusionMatrix
    levels: Counter[Level] = field(default_factory=Counter)
    macs: int = 0
    """Executed, of all frames together."""
    whole_macs: int = 0
    """What the base network on every frame would have executed."""
    kept: list[float] = field(default_factory=list)
    """Of each partial frame, the share of the blocks that ran."""
    latencies: list[float] = field(default_factory=list)
    """Milliseconds of each frame."""

    @property
    def mean_iou(self) -> float:
        """In percent."""
        return 100 * self.counts.mean_iou()

    @property
    def num_frames(self) -> int:
        return self.levels.total()

    @property
    def macs_share(self) -> float:
        """Executed MACs as a share of the base network's, in percent; not a number where they cannot be counted."""
        return 100 * self.macs / self.whole_macs if self.whole_macs else float("nan")

    @property
    def kept_share(self) -> float:
        """Of the blocks on partial frames, in percent."""
        return 100 * float(np.mean(self.kept)) if self.kept else float("nan")

    @property
    def fps(self) -> float:
        """Frames a second, decoding and drawing left out."""
        return 1000 * len(self.latencies) / sum(self.latencies) if self.latencies else float("nan")

    def share(self, level: Level) -> float:
        """Of the frames, in percent."""
        return 100 * self.levels[level] / max(1, self.num_frames)

    def add(self, result: FrameResult, truth: Labels | None, whole_macs: int) -> None:
        if truth is not None:
            self.counts.add(result.labels, truth)
        self.levels[result.level] += 1
        self.macs += result.macs or 0
        self.whole_macs += whole_macs
        self.latencies.append(result.latency_ms)
        if result.level is Level.PARTIAL and result.keep:
            self.kept.append(result.kept_blocks / len(result.keep))


def streamed(
    segmenter: VideoSegmenter, videos: Iterable[Video], size: tuple[int, int], limit: int | None = None
) -> Iterator[tuple[FrameResult, Labels | None]]:
    """Every frame of every video in order, each video from a fresh start, and its truth where there is one."""
    for video in videos:
        segmenter.reset()
        for place in range(len(video))[:limit]:
            yield segmenter.step(video.image(place, size)), video.truth(place, size)


def stream_figures(segmenter: VideoSegmenter, dataset: Dataset, split: str, size: tuple[int, int]) -> StreamFigures:
    """Run a segmenter over a split as streams."""
    figures = StreamFigures(ConfusionMatrix(dataset.num_classes))
    whole = segmenter.runtime.macs(size, Level.KEY, (), 1.0, masked=False) or 0
    for result, truth in streamed(segmenter, dataset.videos(split), size):
        figures.add(result, truth, whole)
    return figures
