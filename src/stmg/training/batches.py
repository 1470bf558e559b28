"""Batches of a run: the clips of each step, for each process."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader

from stmg.config import Recipe
from stmg.data.catalogue import open_dataset
from stmg.data.clips import Clip, Clips, numbers
from stmg.data.dataset import DataError, Dataset


def collated(clips: list[Clip]) -> dict[str, Tensor]:
    """Clips of one size as a batch: `images` (N, T, H, W, 3), `labels` (N, T, H, W), `fields` (N, T - 1, h, w, 2)."""
    return {name: torch.from_numpy(np.stack([getattr(clip, name) for clip in clips])) for name in Clip._fields}


def clips_for(recipe: Recipe, dataset: Dataset, processes: int) -> Clips:
    """The clips of a recipe; processes share the memory for decoded frames."""
    aligned = recipe.stage == "stmg" and recipe.stmg.align
    others = [open_dataset(path) for path in recipe.data.unlabelled]
    unlabelled = tuple(video for other in others for split in other.splits for video in other.videos(split))
    if unlabelled and recipe.stage == "base" and not recipe.loss.teacher:
        raise DataError("videos without labels teach a base network nothing, unless a teacher does: loss.teacher=...")
    share = recipe.data.memory / (processes * max(1, recipe.data.workers))
    data = replace(recipe.data, memory=share)
    return Clips(dataset, data.train, data, recipe.augment, recipe.motion, recipe.seed, aligned, unlabelled)


def batches_for(fabric: Any, recipe: Recipe, clips: Clips, step: int) -> Iterator[dict[str, Tensor]]:
    """This process's part of every batch from a step on."""
    sampler = list(numbers(step, recipe.steps, recipe.batch, fabric.global_rank, fabric.world_size))
    loader = DataLoader(clips, batch_sampler=sampler, num_workers=recipe.data.workers, collate_fn=collated)  # type: ignore[arg-type,var-annotated]
    return iter(fabric.setup_dataloaders(loader, use_distributed_sampler=False))


def next_batch(batches: Iterator[dict[str, Tensor]]) -> dict[str, Tensor]:
    """The next one; what is wrong with the data is said in one line."""
    try:
        return next(batches)
    except DataError as error:  # a loader's process adds its whole traceback to the message
        raise DataError(str(error).strip().splitlines()[-1].partition("DataError: ")[2] or str(error)) from None
