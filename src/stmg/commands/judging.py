"""What the verbs that judge have in common: a model, and data that speaks of the same classes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from stmg.checkpoint import find, read_card
from stmg.commands.models import is_code
from stmg.commands.segmenters import segmenter_for
from stmg.data.catalogue import open_dataset
from stmg.data.dataset import Dataset
from stmg.networks import NETWORKS
from stmg.overlay import default_palette
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
    size = asked.size or native_size(asked.model)
    segmenter = segmenter_for(asked.model, size=size, **model)
    videos = dataset.videos(asked.split if dataset.class_names else "all")
    known = num_classes(segmenter, size)
    if not dataset.class_names:  # videos without labels: the network's own classes are all there are
        names = segmenter.class_names or tuple(f"class {number}" for number in range(known))
        dataset = replace(dataset, class_names=names, palette=default_palette(len(names)))
    elif known != dataset.num_classes:
        raise ValueError(f"{asked.model} knows {known} classes, {dataset.name} has {dataset.num_classes}")
    return segmenter, replace(dataset, splits={asked.split: videos}), size


def native_size(model: str) -> tuple[int, int]:
    """The size a checkpoint is meant for; 360x480 for anything else."""
    return (360, 480) if is_code(model) or model in NETWORKS else read_card(find(model)).size


def num_classes(segmenter: VideoSegmenter, size: tuple[int, int]) -> int:
    """How many classes a segmenter tells apart."""
    if segmenter.class_names:
        return len(segmenter.class_names)
    network = getattr(segmenter.runtime, "network", None)
    if network is not None:
        return max(2, int(network.num_classes))
    scores = segmenter.runtime.full(segmenter.runtime.prepare(np.zeros((*size, 3), np.uint8))).scores
    return max(2, len(scores)) if scores.ndim == 3 else 256
