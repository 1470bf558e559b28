"""Stages of training: what the trainer needs of each, and what they have in common."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor, nn

from stmg.data.clips import TrainingClips
from stmg.data.dataset import Dataset
from stmg.evaluation.measuring.accuracy import ConfusionMatrix
from stmg.gating.accelerate import AcceleratedNetwork
from stmg.models.card import Card
from stmg.training.losses import compute_class_weights
from stmg.training.module import TrainingModule
from stmg.training.recipe import Recipe
from stmg.video.frames import Image

Figures = dict[str, float]
"""Results on the validation split, in percent; the weights with the largest `score` are the best."""


class Stage(Protocol):
    """A stage of training."""

    @property
    def training(self) -> TrainingModule:
        """Called with a batch, it returns its losses; `training.network` is what is trained and saved."""

    def evaluate(self, network: nn.Module, device: torch.device) -> Figures:
        """Evaluate a network, which is `training.network` or an average of it, on the validation split."""

    def draw(self, network: nn.Module, device: torch.device) -> Image | None:
        """A picture of what it has learned; None if there is nothing to show it on."""

    def finish(self, network: nn.Module) -> tuple[AcceleratedNetwork, Card]:
        """The network as it is saved in a checkpoint, and its card."""


def make_card(network: str, recipe: Recipe, dataset: Dataset) -> Card:
    """A card that says what a recipe trained."""
    return Card(
        network=network,
        num_classes=dataset.num_classes,
        size=recipe.data.size,
        class_names=dataset.class_names,
        palette=tuple((int(r), int(g), int(b)) for r, g, b in dataset.palette),
        notes={"data": f"{dataset.name}, split {recipe.data.train}"},
    )


def accuracy_figures(counts: ConfusionMatrix, dataset: Dataset) -> Figures:
    """mIoU, which is the score too, and the IoU of each class; nothing if nothing was counted."""
    if not counts.counts.any():
        return {}
    miou = 100 * counts.mean_iou()
    by_class = {f"iou {name}": 100 * float(iou) for name, iou in zip(dataset.class_names, counts.iou(), strict=True)}
    return {"score": miou, "miou": miou, **by_class}


def class_weights_of(recipe: Recipe, dataset: Dataset, clips: TrainingClips) -> Tensor | None:
    """Weights (C,) of the classes in the loss."""
    if recipe.loss.class_weights == "none":
        return None
    shares = torch.from_numpy(clips.class_shares(dataset.num_classes)).float()
    return compute_class_weights(shares, recipe.loss.class_weights)
