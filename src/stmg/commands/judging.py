"""What the verbs that judge have in common: a model, and data that speaks of the same classes."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from stmg.checkpoint import find, read_card
from stmg.commands.models import is_code
from stmg.commands.segmenters import segmenter_for
from stmg.data.catalogue import open_dataset
from stmg.data.dataset import Dataset
from stmg.loading import is_graph
from stmg.motion import ESTIMATORS
from stmg.networks import NETWORKS
from stmg.overlay import default_palette
from stmg.runtimes.exported import DESCRIPTION, read_description
from stmg.runtimes.labels import MOST_CLASSES
from stmg.segmenter import VideoSegmenter


@dataclass(frozen=True)
class Contest:
    """What is judged, on what."""

    model: str
    data: str
    split: str = "val"
    size: tuple[int, int] | None = None
    limit: int | None = None


def contest(model: dict[str, Any], asked: Contest) -> tuple[VideoSegmenter, Dataset, tuple[int, int]]:
    """The segmenter, the data, and the size to judge at; `model` are the settings of `segmenter_for`."""
    dataset = open_dataset(asked.data)
    size = size_for(asked.model, asked.size)
    segmenter = segmenter_for(asked.model, size=size, **model)
    if asked.size is None:
        size = own_size(segmenter) or size
    videos = dataset.videos(asked.split if dataset.class_names else "all")
    known = num_classes(segmenter, size)
    if hasattr(segmenter.runtime, "waits"):
        segmenter.runtime.waits = True  # every frame with the pattern that was asked for
    if not dataset.class_names:  # videos without labels: the network's own classes are all there are
        names = segmenter.class_names or tuple(f"class {number}" for number in range(known or MOST_CLASSES))
        dataset = replace(dataset, class_names=names, palette=default_palette(len(names)))
    else:
        check_classes(asked.model, segmenter, known, dataset)
    return segmenter, replace(dataset, splits={asked.split: videos}), size


def check_classes(model: str, segmenter: VideoSegmenter, known: int | None, dataset: Dataset) -> None:
    """Refuse a model that speaks of other classes than the data: its figures would mean nothing."""
    if known not in (None, dataset.num_classes):
        raise ValueError(f"{model} knows {known} classes, {dataset.name} has {dataset.num_classes}")
    named = zip(segmenter.class_names, dataset.class_names, strict=False)
    other = next(((mine, theirs) for mine, theirs in named if mine.lower() != theirs.lower()), None)
    if other is not None:
        raise ValueError(f"{model} calls a class {other[0]!r} that {dataset.name} calls {other[1]!r}")


def size_for(model: str, asked: tuple[int, int] | None) -> tuple[int, int]:
    """The size to judge at: the one asked for, or what the model is meant for; 360x480 for a network of any size."""
    path = Path(model)
    if (path / DESCRIPTION).is_file():
        height, width = read_description(path)["size"]
        if asked not in (None, (height, width)):
            raise ValueError(f"{model} is exported for {height}x{width}: export it again for another size")
        return height, width
    if asked is not None:
        return asked
    return (360, 480) if is_code(model) or model in NETWORKS or is_graph(model) else read_card(find(model)).size


def own_size(segmenter: VideoSegmenter) -> tuple[int, int] | None:
    """The one size that a graph is made for; None for what takes any."""
    size: tuple[int, int] | None = getattr(segmenter.runtime, "size", None)
    return size


def num_classes(segmenter: VideoSegmenter, size: tuple[int, int]) -> int | None:
    """How many classes a segmenter tells apart; None where a graph gives labels, which do not say."""
    if segmenter.class_names:
        return len(segmenter.class_names)
    network = getattr(segmenter.runtime, "network", None)
    if network is not None:
        return max(2, int(network.num_classes))
    scores = segmenter.runtime.full(segmenter.runtime.prepare(np.zeros((*size, 3), np.uint8))).scores
    return max(2, len(scores)) if scores.ndim == 3 else None


def settings_line(segmenter: VideoSegmenter) -> str:
    """How a segmenter decides, in words."""
    scheduler: Any = segmenter.scheduler
    chosen = ", ".join(f"{item.name} {getattr(scheduler, item.name)}" for item in fields(scheduler))
    motion = next((name for name, kind in ESTIMATORS.items() if type(segmenter.motion) is kind), "its own")
    scale = f", partial frames at {segmenter.partial_scale:g}" if segmenter.partial_scale < 1 else ""
    return f"scheduler {scheduler.name} ({chosen}), motion {motion}, fusion {segmenter.fusion:g}{scale}"


def runtime_line(segmenter: VideoSegmenter) -> str:
    """What computes, in words."""
    runtime: Any = segmenter.runtime
    engine = getattr(runtime, "engine", None)
    if engine is not None:
        threads = f", {engine.threads} threads" if engine.threads else ""
        return f"{engine.name} {engine.version}{threads}"
    if hasattr(runtime, "precision"):
        kind = f"{runtime.precision}, key frames compiled" if runtime.compiled else runtime.precision
        return f"PyTorch {torch.__version__} on {runtime.device}, {kind}, {torch.get_num_threads()} threads"
    return "a function"
