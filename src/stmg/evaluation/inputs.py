"""What is measured: a model, and data with the same classes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from stmg.data.catalogue import is_dataset, open_dataset
from stmg.data.dataset import Dataset, Video
from stmg.data.folder import is_video
from stmg.errors import DataError
from stmg.evaluation.way import Size
from stmg.models.load import resolve
from stmg.models.spec import ModelSpec, as_spec
from stmg.segmenter import VideoSegmenter
from stmg.streaming.runtime import Runtime
from stmg.streaming.working_size import ANY_SIZE
from stmg.video.labels import MAX_CLASSES
from stmg.video.overlay import default_palette
from stmg.video.sources import open_video

Model = VideoSegmenter | ModelSpec | str | Path
"""A segmenter, or what `stmg.load` makes one from."""


class Subject(NamedTuple):
    """A model that is measured."""

    segmenter: VideoSegmenter
    name: str
    size: Size
    chosen: Mapping[str, Any] = {}
    """Settings that were chosen and are not the model's own, by name."""


def open_model(model: Model, size: Size | None = None, name: str | None = None, source: Size | None = None) -> Subject:
    """The segmenter, what results call it, and the frame size.

    source: (H, W) of the video; without `size` it is measured at the size at which `segment` computes it.
    """
    chosen: Mapping[str, Any] = {}
    if isinstance(model, VideoSegmenter):
        segmenter, name = model, name or "segmenter"
    else:
        spec = as_spec(model)
        spec = spec if size is None else spec.with_options(size=size)
        segmenter, chosen, name = resolve(spec), spec.options, name or spec.name
    # A stream of its own, so that the caller's is not disturbed; its frames come at the size to work at.
    return Subject(segmenter.another(size=None, model_size=None), name, size or choose_size(segmenter, source), chosen)


def choose_size(segmenter: VideoSegmenter, source: Size | None) -> Size:
    """(H, W) at which a video of this size is computed; if that is not known, what the model is meant for."""
    settings = segmenter.settings
    own = settings.size or segmenter.runtime.input_size or settings.model_size or ANY_SIZE
    return own if source is None else segmenter.size_for(source) or source


def read_source_size(source: Dataset | str | Path, split: str | None = None) -> Size | None:
    """(H, W) of a video, or of the first frame of a dataset; None if it can be read only once, as standard input."""
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
    """A dataset of that split alone, whose classes are the model's; videos without labels get the model's classes."""
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
    """The videos of a split; all there are if nothing is labeled, and there are no splits."""
    return dataset.videos(split if dataset.class_names else "all")


def check_classes(subject: Subject, num_classes: int | None, dataset: Dataset) -> None:
    """Refuse a model of other classes than the data's: its figures would mean nothing."""
    if num_classes not in (None, dataset.num_classes):
        raise DataError(f"{subject.name} has {num_classes} classes, {dataset.name} has {dataset.num_classes}")
    for own, other in zip(subject.segmenter.class_names, dataset.class_names, strict=False):
        if own.lower() != other.lower():
            raise DataError(f"{subject.name} calls a class {own!r} that {dataset.name} calls {other!r}")


def count_classes(subject: Subject) -> int | None:
    """How many classes a model has; None where it gives labels, which do not say."""
    segmenter = subject.segmenter
    if segmenter.class_names:
        return len(segmenter.class_names)
    if segmenter.runtime.num_classes is not None:
        return segmenter.runtime.num_classes
    logits = segmenter.runtime.full(segmenter.runtime.prepare(np.zeros((*subject.size, 3), np.uint8))).logits
    return max(2, len(logits)) if logits.ndim == 3 else None


def takes_size(runtime: Runtime, size: Size) -> bool:
    """True if a network runs on frames of a size. Some take one size only, some multiples of their stride."""
    if runtime.input_size is not None:
        return False
    try:
        runtime.full(runtime.prepare(np.zeros((*size, 3), np.uint8)))
    except Exception:  # whatever a user's network raises
        return False
    return True
