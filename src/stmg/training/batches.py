"""Batches of a run: the clips of each step, for each process."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader

from stmg.data.catalogue import open_dataset
from stmg.data.clips import TrainingClip, TrainingClips, clip_numbers
from stmg.data.dataset import Dataset
from stmg.errors import StmgError
from stmg.training.processes import restore_error
from stmg.training.recipe import Recipe

if TYPE_CHECKING:
    from lightning_fabric import Fabric


class Batch(NamedTuple):
    """Clips of one size, on one device."""

    images: Tensor
    """(N, T, H, W, 3) RGB, uint8."""
    labels: Tensor
    """(N, T, H, W) class ids, uint8; see `TrainingClip`."""
    flows: Tensor
    """(N, T - 1, h, w, 2): flow from each frame to the one before."""


def collate(clips: list[TrainingClip]) -> Batch:
    """Clips as a batch."""
    return Batch(*(torch.from_numpy(np.stack(parts)) for parts in zip(*clips, strict=True)))


def make_clips(recipe: Recipe, dataset: Dataset, num_processes: int) -> TrainingClips:
    """The clips of a recipe; processes share the memory for decoded frames."""
    aligned = recipe.stage == "stmg" and recipe.stmg.align
    unlabeled = tuple(video for path in recipe.data.unlabeled for video in open_dataset(path).training_videos)
    share = recipe.data.cache_gb / (num_processes * max(1, recipe.data.workers))
    data = replace(recipe.data, cache_gb=share)
    return TrainingClips(dataset, data.train, data, recipe.augment, recipe.motion, recipe.seed, aligned, unlabeled)


def load_batches(fabric: Fabric, recipe: Recipe, clips: TrainingClips, step: int) -> Iterator[Batch]:
    """This process's part of every batch from a step on; what is wrong with the data is said in one line."""
    numbers = list(clip_numbers(step, recipe.steps, recipe.batch, fabric.global_rank, fabric.world_size))
    loader = DataLoader(clips, batch_sampler=numbers, num_workers=recipe.data.workers, collate_fn=collate)  # type: ignore[arg-type,var-annotated]
    batches: Any = fabric.setup_dataloaders(loader, use_distributed_sampler=False)
    try:
        yield from batches
    except StmgError as error:  # a loader's process adds its whole traceback to the message
        raise (restore_error(str(error)) if recipe.data.workers else error) from None
