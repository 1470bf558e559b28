"""The first stage: the base network, on single frames."""

from __future__ import annotations

from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from stmg.acceleration.accelerate import find_logits
from stmg.card import IMAGENET_MEAN, IMAGENET_STD
from stmg.config import Loss
from stmg.data.clips import UNLABELLED
from stmg.overlay import IGNORE
from stmg.training.losses import distillation, enlarged, segmentation

Losses = dict[str, Tensor]
Brought = TypeVar("Brought", bound=nn.Module)


class Accompanied(nn.Module):
    """A module with networks beside it that go where it goes but are no part of what is trained or saved."""

    def __init__(self) -> None:
        super().__init__()
        self.beside: list[nn.Module] = []

    def _apply(self, function: Any, recurse: bool = True) -> Accompanied:
        for network in self.beside:
            network._apply(function)  # type: ignore[no-untyped-call]
        super()._apply(function, recurse)  # type: ignore[no-untyped-call]
        return self

    def bring(self, network: Brought) -> Brought:
        """Take a network along, frozen."""
        self.beside = [*self.beside, network.eval().requires_grad_(False)]
        return network


class BaseTraining(Accompanied):
    """A network and what is minimised when it is trained; called with a batch, it gives its losses."""

    def __init__(
        self, network: nn.Module, loss: Loss, class_weights: Tensor | None = None, teacher: nn.Module | None = None
    ) -> None:
        super().__init__()
        self.network = network
        self.settings = loss
        self.normalise = Normalise()
        self.class_weights: Tensor | None
        self.register_buffer("class_weights", class_weights, persistent=False)
        self.teacher = () if teacher is None else (self.bring(teacher),)

    def forward(self, batch: dict[str, Tensor]) -> Losses:
        """`images` (N, 1, H, W, 3) and `labels` (N, 1, H, W), uint8, to `loss` and its parts."""
        image, labels = self.normalise(batch["images"][:, -1]), batch["labels"][:, -1]
        labels = labels.masked_fill(labels == UNLABELLED, IGNORE)  # those frames are the teacher's
        output = self.network(image)
        scores = find_logits(output)
        logits = enlarged(scores, labels.shape[-2:])
        losses = {"segmentation": self._segmentation(logits, labels)}
        total = losses["segmentation"]
        if self.settings.auxiliary and isinstance(output, tuple | list) and len(output) > 1:
            losses["auxiliary"] = self._segmentation(enlarged(output[1], labels.shape[-2:]), labels)
            total = total + self.settings.auxiliary * losses["auxiliary"]
        for teacher in self.teacher:
            with torch.no_grad():
                soft = find_logits(teacher(image))
            alike = enlarged(scores, soft.shape[-2:])  # at the teacher's size: at the labels' it would say no more
            losses["distillation"] = distillation(alike, soft, self.settings.temperature).mean()
            total = total + self.settings.distill * losses["distillation"]
        return {"loss": total, **losses}

    def _segmentation(self, logits: Tensor, labels: Tensor) -> Tensor:
        settings = self.settings
        return segmentation(logits, labels, self.class_weights, settings.hard_pixels, settings.hard_share).mean()


class Normalise(nn.Module):
    """RGB uint8 (N, H, W, 3) to what networks take, (N, 3, H, W)."""

    def __init__(self, mean: tuple[float, ...] = IMAGENET_MEAN, std: tuple[float, ...] = IMAGENET_STD) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor(mean).view(1, 3, 1, 1) * 255, persistent=False)
        self.register_buffer("std", torch.tensor(std).view(1, 3, 1, 1) * 255, persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        values: Any = images.permute(0, 3, 1, 2).to(torch.float32)
        out: Tensor = (values - self.mean) / self.std
        return out.contiguous(memory_format=torch.channels_last)
