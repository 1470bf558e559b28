"""Inputs of a measurement: a model, and frames in memory, with labels of the same classes where there are any."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from stmg.data.catalogue import is_dataset, open_dataset
from stmg.data.dataset import Dataset, Video
from stmg.data.files import VideoFile
from stmg.data.folder import is_video
from stmg.errors import DataError
from stmg.evaluation.way import Size
from stmg.models.load import resolve
from stmg.models.spec import ModelSpec, as_spec
from stmg.segmenter import VideoSegmenter
from stmg.streaming.runtime import Runtime
from stmg.streaming.working_size import ANY_SIZE
from stmg.video.frames import Frame, Image
from stmg.video.labels import MAX_CLASSES, Labels
from stmg.video.overlay import default_palette
from stmg.video.sources import open_video

Item = TypeVar("Item")
Model = VideoSegmenter | ModelSpec | str | Path
"""A segmenter, or what `stmg.load` makes one from."""
MAX_MEMORY = 4e9  # bytes of decoded frames


class Subject(NamedTuple):
    """A model to measure."""

    segmenter: VideoSegmenter
    name: str
    size: Size
    chosen: Mapping[str, Any] = {}
    """Settings that the user gave, by name."""


def open_model(model: Model, size: Size | None = None, name: str | None = None, source: Size | None = None) -> Subject:
    """Open a model to measure it: its segmenter, its name in results, and the frame size.

    source: (H, W) of the video. Without `size`, the model is measured at the size at which `segment` computes it.
    """
    chosen: Mapping[str, Any] = {}
    if isinstance(model, VideoSegmenter):
        segmenter, name = model, name or "segmenter"
    else:
        spec = as_spec(model)
        spec = spec if size is None else spec.with_options(size=size)
        segmenter, chosen, name = resolve(spec), spec.options, name or spec.name
    # Use a separate stream, so that the caller's is not disturbed. Frames arrive already resized.
    return Subject(segmenter.another(size=None, model_size=None), name, size or choose_size(segmenter, source), chosen)


def choose_size(segmenter: VideoSegmenter, source: Size | None) -> Size:
    """(H, W) at which a video of this size is computed; if the size is not known, the one the model is meant for."""
    settings = segmenter.settings
    own = settings.size or segmenter.runtime.input_size or settings.model_size or ANY_SIZE
    return own if source is None else segmenter.size_for(source) or source


def read_source_size(source: Dataset | str | Path, split: str | None = None) -> Size | None:
    """(H, W) of a video, or of the first frame of a dataset; None if it can be read only once, like standard input."""
    if source == "-":
        return None
    if not isinstance(source, Dataset):
        if not is_dataset(str(source)) or is_video(Path(source)):
            with open_video(source) as video:
                return video.size
        source = open_dataset(source)
    names = [name for name in (split, "val") if name in source.splits] or list(source.splits)
    first = next((video for video in source.videos(names[0]) if len(video)), None)
    return None if first is None else first.image(0).shape[:2]


def open_data(dataset: Dataset, split: str, subject: Subject) -> Dataset:
    """The split as a dataset of its own. Its classes must be the model's; without labels it gets those."""
    videos = videos_of(dataset, split)
    num_classes = count_classes(subject)
    if dataset.class_names:
        check_classes(subject, num_classes, dataset)
    else:
        own = subject.segmenter.class_names
        names = own or tuple(f"class {index}" for index in range(num_classes or MAX_CLASSES))
        dataset = replace(dataset, class_names=names, palette=default_palette(len(names)))
    return replace(dataset, splits={split: videos})


def videos_of(dataset: Dataset, split: str) -> tuple[Video, ...]:
    """The videos of a split; all videos where nothing is labeled, as there are no splits then."""
    return dataset.videos(split if dataset.class_names else "all")


def check_classes(subject: Subject, num_classes: int | None, dataset: Dataset) -> None:
    """Raise if the model's classes differ from the data's: its accuracy would mean nothing."""
    if num_classes not in (None, dataset.num_classes):
        raise DataError(f"{subject.name} has {num_classes} classes, {dataset.name} has {dataset.num_classes}")
    for own, other in zip(subject.segmenter.class_names, dataset.class_names, strict=False):
        if own.lower() != other.lower():
            raise DataError(f"class names differ: {own!r} in {subject.name}, {other!r} in {dataset.name}")


def count_classes(subject: Subject) -> int | None:
    """Number of classes of a model; None if it returns labels, which do not show it."""
    segmenter = subject.segmenter
    if segmenter.class_names:
        return len(segmenter.class_names)
    if segmenter.runtime.num_classes is not None:
        return segmenter.runtime.num_classes
    logits = segmenter.runtime.full(segmenter.runtime.prepare(np.zeros((*subject.size, 3), np.uint8))).logits
    return max(2, len(logits)) if logits.ndim == 3 else None


def takes_size(runtime: Runtime, size: Size) -> bool:
    """True if a network runs on frames of this size. Some take one size only, some multiples of their stride."""
    if runtime.input_size is not None:
        return False
    try:
        runtime.full(runtime.prepare(np.zeros((*size, 3), np.uint8)))
    except Exception:  # a user's network may raise anything
        return False
    return True


class Clip(NamedTuple):
    """Frames in memory."""

    frames: list[Frame]
    truths: list[Labels | None]
    starts: set[int]
    """Index of the first frame of each video."""
    read_ms: float | None
    """Milliseconds to read a frame; None if frames are rendered."""
    dataset: Dataset | None
    """The dataset that the labels are from; None without labels."""
    rate: float | None = None
    """FPS; None if the source does not know."""


def read_clip(source: str, size: Size, num_frames: int) -> Clip:
    """Read the first frames of a dataset's validation videos, or of any video."""
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
    """The frames of each video of a clip."""
    edges = [*sorted(clip.starts), len(clip.frames)]
    return [clip.frames[start:end] for start, end in pairwise(edges)]


def read_frames(video: Video, size: Size, limit: int | None = None) -> Iterator[tuple[int, Frame]]:
    """Read frames of a video with their index; a file is decoded once from its start."""
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
    """A video, or the start of one, in memory: for streams that are run many times."""

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
    """The split with its videos in memory if they fit; else they are read again each time."""
    videos = dataset.videos(split)
    needed = sum(min(len(video), limit or len(video)) for video in videos) * size[0] * size[1] * 4
    if needed > MAX_MEMORY and limit is None:
        return dataset
    return replace(dataset, splits={split: tuple(MemoryVideo(video, size, limit) for video in videos)})


class _Timed(Generic[Item]):
    """An iterable that records how many seconds each of its items took."""

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
