"""Optimizers and learning rates: both follow from the recipe and the step alone."""

from __future__ import annotations

import math

from torch import nn, optim

from stmg.errors import TrainingError
from stmg.training.recipe import Optimizer


def make_optimizer(module: nn.Module, settings: Optimizer) -> optim.Optimizer:
    """SGD or AdamW over what may be trained; what has one dimension (norms, biases) does not decay."""
    groups: dict[tuple[float, bool], list[nn.Parameter]] = {}
    for name, parameter in module.named_parameters():
        if parameter.requires_grad:
            groups.setdefault((_rate_factor(name, settings), parameter.dim() > 1), []).append(parameter)
    if not groups:
        raise TrainingError("there is nothing to train: every weight is frozen")
    entries = [
        {
            "params": parameters,
            "rate": rate,
            "weight_decay": settings.weight_decay if decays else 0.0,
        }
        for (rate, decays), parameters in groups.items()
    ]
    if settings.name == "sgd":
        return optim.SGD(entries, settings.learning_rate, momentum=settings.momentum)
    return optim.AdamW(entries, settings.learning_rate)


def set_learning_rate(optimizer: optim.Optimizer, settings: Optimizer, step: int, steps: int) -> float:
    """Set the learning rate for a step, and return that of the groups with no factor of their own."""
    rate = settings.learning_rate * share_at(settings, step, steps)
    for group in optimizer.param_groups:
        group["lr"] = rate * group["rate"]
    return rate


def share_at(settings: Optimizer, step: int, steps: int) -> float:
    """The learning rate of a step as a share of the largest."""
    elapsed = step / max(1, steps)
    if settings.schedule == "one-cycle":
        warm_up = settings.warm_up
        if elapsed < warm_up:
            return 0.04 + 0.96 * (1 - math.cos(math.pi * elapsed / warm_up)) / 2
        return max(1e-4, (1 + math.cos(math.pi * (elapsed - warm_up) / (1 - warm_up))) / 2)
    rise = min(1.0, (step + 1) / max(1.0, settings.warm_up * steps))
    return rise * ((1 - elapsed) ** settings.power if settings.schedule == "poly" else 1.0)


def _rate_factor(name: str, settings: Optimizer) -> float:
    """Learning rate of a parameter, relative to the rest."""
    if name.startswith(("network.encoder.", "network.network.encoder.", "network.second.encoder.")):
        return settings.encoder
    return settings.masks if name.startswith("network.mask_generator.") else 1.0
