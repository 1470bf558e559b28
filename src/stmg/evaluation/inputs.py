"""What is measured: a model, and data with the same classes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from stmg.data.catalogue import is_dataset, open_dataset
from stmg.data.dataset import Dataset, Video
from stmg.data.folder import is_video
from stmg.errors import DataError
from stmg.evaluation.results import Size
from stmg.models.load import resolve, working_size
from stmg.models.spec import ModelSpec, as_spec
from stmg.segmenter import VideoSegmenter
from stmg.streaming.runtime import Runtime
from stmg.streaming.schedulers import AlwaysKey, PaperScheduler, Scheduler
from stmg.streaming.settings import Mode
from stmg.streaming.working_size import choose_size
from stmg.video.labels import MAX_CLASSES
from stmg.video.overlay import default_palette
from stmg.video.sources import open_video

Model = VideoSegmenter | ModelSpec | str | Path
"""A segmenter, or what `stmg.load` makes one from."""
DEFAULT_SIZE = (360, 480)  # of a segmenter that takes any size

EVERY_FRAME: Mapping[str, Any] = {
    "mode": None,
    "scheduler": AlwaysKey(),
    "max_change": None,
    "corrector": "none",
}
"""The base network in any mode: nothing is carried, so there is no change to steer by and nothing to correct."""
PAPER_SETTINGS: Mapping[str, Any] = {
    "mode": "online",
    "scheduler": PaperScheduler(),
    "motion": "none",
    "max_change": None,
    "corrector": "none",
}
"""The paper's mode: nothing is warped."""


class Subject(NamedTuple):
    """A model that is measured."""

    segmenter: VideoSegmenter
    name: str
    size: Size


def open_model(model: Model, size: Size | None = None, name: str | None = None) -> Subject:
    """The segmenter, what results call it, and the frame size: the one given, else what the model is meant for."""
    if isinstance(model, VideoSegmenter):
        # Another one over the same weights, so that the caller's stream is not disturbed.
        meant = model.settings.size or model.settings.model_size or DEFAULT_SIZE
        return Subject(
            model.another(size=None, model_size=None), name or "segmenter", size or model.runtime.input_size or meant
        )
    spec = as_spec(model)
    spec = spec if size is None else spec.with_options(size=size)
    meant = working_size(spec)
    segmenter = resolve(spec).another(size=None, model_size=None)  # frames come at the size to work at
    return Subject(segmenter, name or spec.name, spec.settings.size or segmenter.runtime.input_size or meant)


def fit_video(subject: Subject, source: str) -> Subject:
    """The model at the size at which it would segment a larger video: as many pixels, in the video's own shape."""
    if source == "-" or (is_dataset(source) and not is_video(Path(source))):  # standard input can be read once
        return subject
    with open_video(source) as video:
        size = choose_size(None, subject.size, video.size, None)
    if size in (None, subject.size) or not takes_size(subject.segmenter.runtime, size):
        return subject
    return subject._replace(size=size)


def open_data(data: Dataset | str | Path, split: str, subject: Subject) -> Dataset:
    """A dataset of that split alone, whose classes are the model's; videos without labels get the model's classes."""
    dataset = data if isinstance(data, Dataset) else open_dataset(data)
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


def describe_settings(segmenter: VideoSegmenter, mode: Mode = "online") -> str:
    """How a stream is segmented in a mode, in words."""
    settings, corrector = segmenter.settings, segmenter.settings.corrector
    parts = [f"motion {settings.motion.name}"]
    if mode == "realtime":
        parts.insert(0, "realtime")
    elif mode == "offline":
        parts.insert(0, f"offline {_describe_scheduler(settings.scheduler_for('offline'))}")
    else:
        fusion = segmenter.online.fusion
        parts = [f"scheduler {_describe_scheduler(settings.scheduler_for('online'))}", *parts, f"fusion {fusion:g}"]
        # The paper's mode is measured beside others wherever there are masks.
        with_masks = segmenter.runtime.has_mask_generator
        if settings.partial_scale < 1 and (with_masks or settings.scheduler_for("online").refreshes):
            parts.append(f"partial frames at {settings.partial_scale:g}")
        parts += [f"mask gain {settings.masking.gain:g}"] if with_masks else []
    if corrector is not None and (mode != "offline" or corrector.between):
        parts.append("corrector")
    if settings.max_change is not None:
        parts.append(f"max_change {settings.max_change:g}")
    return ", ".join(parts)


def _describe_scheduler(scheduler: Scheduler) -> str:
    options: list[str] = [item.name for item in fields(scheduler)] if is_dataclass(scheduler) else []
    chosen = ", ".join(f"{option} {getattr(scheduler, option)}" for option in options)
    return f"{scheduler.name} ({chosen})" if chosen else scheduler.name


def takes_size(runtime: Runtime, size: Size) -> bool:
    """Whether a network runs on frames of a size: some take one only, some multiples of their stride."""
    if runtime.input_size is not None:
        return False
    try:
        runtime.full(runtime.prepare(np.zeros((*size, 3), np.uint8)))
    except Exception:  # whatever a user's network raises
        return False
    return True
