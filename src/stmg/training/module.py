"""What both stages train: a network, its loss, and frozen networks that it learns from."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor, nn

from stmg.gating.accelerate import find_logits
from stmg.gating.normalize import NormalizeImage
from stmg.runtimes.normalization import IMAGENET_MEAN, IMAGENET_STD
from stmg.training.losses import segmentation_loss
from stmg.training.recipe import Loss

Losses = dict[str, Tensor]
"""`loss`, which is minimized, and its parts by name."""
Module = TypeVar("Module", bound=nn.Module)


class TrainingModule(nn.Module):
    """A network with its loss. Frozen networks move with it between devices, but are neither trained nor saved."""

    def __init__(self, network: nn.Module, loss: Loss, class_weights: Tensor | None, teacher: nn.Module | None) -> None:
        super().__init__()
        self.network = network
        self.loss = loss
        self.normalize = NormalizeImage(IMAGENET_MEAN, IMAGENET_STD)
        self.class_weights: Tensor | None
        self.register_buffer("class_weights", class_weights, persistent=False)
        # In a list, PyTorch does not take them for parts of this module.
        self._frozen: list[nn.Module] = []
        self._has_teacher = teacher is not None
        if teacher is not None:
            self.add_frozen(teacher)

    def add_frozen(self, network: Module) -> Module:
        """Hold a network that is never trained."""
        self._frozen.append(network.eval().requires_grad_(False))
        return network

    @torch.no_grad()
    def teach(self, image: Tensor) -> Tensor | None:
        """The teacher's logits (N, C, h, w) of normalized images; None without a teacher."""
        return find_logits(self._frozen[0](image)) if self._has_teacher else None

    def segmentation_loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Of full-size logits (N, C, H, W) against labels (N, H, W)."""
        loss = self.loss
        return segmentation_loss(logits, labels, self.class_weights, loss.hard_pixels, loss.hard_share).mean()

    def _apply(self, function: Callable[[Tensor], Tensor], recurse: bool = True) -> TrainingModule:
        for network in self._frozen:
            network._apply(function)  # type: ignore[no-untyped-call]
        super()._apply(function, recurse)  # type: ignore[no-untyped-call]
        return self
