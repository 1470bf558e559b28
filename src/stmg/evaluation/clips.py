"""Frames to measure on: read once from a dataset or a video, and kept in memory where they are run many times."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Generic, NamedTuple, TypeVar

from stmg.data.catalogue import is_dataset, open_dataset
from stmg.data.dataset import Dataset, Video
from stmg.data.files import VideoFile
from stmg.errors import DataError
from stmg.evaluation.way import Size
from stmg.video.frames import Frame, Image
from stmg.video.labels import Labels
from stmg.video.sources import open_video

Item = TypeVar("Item")
MAX_MEMORY = 4e9  # bytes of decoded frames


class Clip(NamedTuple):
    """Frames in memory."""

    frames: list[Frame]
    truths: list[Labels | None]
    starts: set[int]
    """Where a video begins."""
    read_ms: float | None
    """Of a frame, from the source to memory; None where it is rendered."""
    dataset: Dataset | None
    """Whose labels they are, if there are any."""
    rate: float | None = None
    """Frames per second; None where the source does not know."""


def read_clip(source: str, size: Size, num_frames: int) -> Clip:
    """The first frames of a dataset's validation videos, of a video file, or of anything else that can be opened."""
    if not is_dataset(source):
        with open_video(source, resize=size, limit=num_frames) as video:
            reading = _Timed(video)
            frames = list(reading)
            rate = video.fps
        if not frames:
            raise DataError(f"{video.name} has no frames")
        return Clip(frames, [None] * len(frames), {0}, reading.mean_ms, None, rate)
    dataset = open_dataset(source)
    split = "val" if "val" in dataset.splits else next(iter(dataset.splits))
    frames = []
    truths: list[Labels | None] = []
    starts: set[int] = set()
    seconds: list[float] = []
    videos = dataset.videos(split)
    for each in videos:
        starts.add(len(frames))
        timed = _Timed(read_frames(each, size, num_frames - len(frames)))
        for index, frame in timed:
            frames.append(frame)
            truths.append(each.truth(index, size))
        seconds += timed.seconds
        if len(frames) >= num_frames:
            break
    if not frames:
        raise DataError(f"{source} has no frames")
    labeled = any(truth is not None for truth in truths)
    read_ms = None if source.startswith("street:") else 1000 * sum(seconds) / len(seconds)
    return Clip(frames, truths, starts, read_ms, dataset if labeled else None, videos[0].rate)


def split_videos(clip: Clip) -> list[list[Frame]]:
    """The frames of each video."""
    edges = [*sorted(clip.starts), len(clip.frames)]
    return [clip.frames[start:end] for start, end in pairwise(edges)]


def read_frames(video: Video, size: Size, limit: int | None = None) -> Iterator[tuple[int, Frame]]:
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

    def __init__(self, video: Video, size: Size, limit: int | None) -> None:
        self.name, self.rate = video.name, video.rate
        self.frames = [frame for _, frame in read_frames(video, size, limit)]
        self.truths = [video.truth(index, size) for index in range(len(self.frames))]
        self.labeled = [index for index, truth in enumerate(self.truths) if truth is not None]

    def __len__(self) -> int:
        return len(self.frames)

    def image(self, index: int, size: Size | None = None) -> Image:
        return self.frames[index].image

    def truth(self, index: int, size: Size | None = None) -> Labels | None:
        return self.truths[index]


def load_into_memory(dataset: Dataset, split: str, size: Size, limit: int | None = None) -> Dataset:
    """A split whose videos are in memory, if they fit; else they are read again each time."""
    videos = dataset.videos(split)
    needed = sum(min(len(video), limit or len(video)) for video in videos) * size[0] * size[1] * 4
    if needed > MAX_MEMORY and limit is None:
        return dataset
    return replace(dataset, splits={split: tuple(MemoryVideo(video, size, limit) for video in videos)})


class _Timed(Generic[Item]):
    """An iterable, and the seconds that each of its items took to come."""

    def __init__(self, items: Iterable[Item]) -> None:
        self._items = items
        self.seconds: list[float] = []

    def __iter__(self) -> Iterator[Item]:
        started = time.perf_counter()
        for item in self._items:
            self.seconds.append(time.perf_counter() - started)
            yield item
            started = time.perf_counter()

    @property
    def mean_ms(self) -> float:
        return 1000 * sum(self.seconds) / max(1, len(self.seconds))
