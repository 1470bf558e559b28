"""Teachers: trained networks whose soft labels another one learns from."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

from stmg.data.dataset import Dataset
from stmg.errors import ModelError, SettingsError
from stmg.gating.accelerate import find_logits
from stmg.gating.folding import fold_batch_norm
from stmg.models.store import load_network
from stmg.runtimes.normalization import Normalization
from stmg.training.losses import upsample


class Ensemble(nn.Module):
    """Several networks as one: the logarithm of their mean probabilities, at the largest of their output sizes."""

    def __init__(self, networks: list[nn.Module]) -> None:
        super().__init__()
        self.networks = nn.ModuleList(networks)

    def forward(self, image: Tensor) -> Tensor:
        logits = [find_logits(network(image)) for network in self.networks]
        size = max((each.shape[-2:] for each in logits), key=lambda shape: shape[0] * shape[1])
        mean = torch.stack([upsample(each, size).softmax(1) for each in logits]).mean(0)
        return mean.clamp(min=1e-8).log()


def load_teacher(names: str, dataset: Dataset) -> nn.Module | None:
    """The network, or the ensemble of them, behind one name or several joined by `+`; None for an empty text."""
    if not names:
        return None
    # A folder may have a + in its name.
    listed = [names] if Path(names).is_dir() else [name.strip() for name in names.split("+")]
    if not all(listed):
        raise SettingsError(f"loss.teacher is a checkpoint, or several joined by +; got {names!r}")
    networks = [_load(name, dataset) for name in listed]
    return networks[0] if len(networks) == 1 else Ensemble(networks)


def _load(name: str, dataset: Dataset) -> nn.Module:
    network, card = load_network(name)
    if card.num_classes != dataset.num_classes:
        raise ModelError(f"the teacher {name} has {card.num_classes} classes, {dataset.name} has {dataset.num_classes}")
    if card.normalization != Normalization():
        raise ModelError(f"the teacher {name} needs another normalization than ImageNet's, which is trained with")
    teacher = network.plain()
    fold_batch_norm(teacher, torch.rand(1, 3, *network.example_size))
    return teacher.to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]
