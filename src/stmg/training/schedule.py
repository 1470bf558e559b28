"""Optimizer, learning rate and moving average. All depend only on the recipe and the step."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn, optim

from stmg.errors import TrainingError
from stmg.training.recipe import Optimizer


def make_optimizer(module: nn.Module, settings: Optimizer) -> optim.Optimizer:
    """Make SGD or AdamW for the parameters that are not frozen."""
    groups: dict[tuple[float, bool], list[nn.Parameter]] = {}
    for name, parameter in module.named_parameters():
        if parameter.requires_grad:
            decays = parameter.dim() > 1 or settings.decay_norms
            groups.setdefault((_rate_factor(name, settings), decays), []).append(parameter)
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
    """Set the learning rate for a step. Return that of the groups without a factor."""
    rate = settings.learning_rate * share_at(settings, step, steps)
    for group in optimizer.param_groups:
        group["lr"] = rate * group["rate"]
    return rate


def share_at(settings: Optimizer, step: int, steps: int) -> float:
    """Learning rate of a step as a share of the maximum."""
    elapsed, warm_up = step / max(1, steps), settings.warm_up
    if settings.schedule == "one-cycle":
        if elapsed < warm_up:
            return 0.04 + 0.96 * (1 - math.cos(math.pi * elapsed / warm_up)) / 2
        return max(1e-4, (1 + math.cos(math.pi * (elapsed - warm_up) / (1 - warm_up))) / 2)
    if settings.schedule == "cosine":
        if elapsed < warm_up:
            return 0.04 + 0.96 * elapsed / warm_up
        return max(1e-3, 0.5 + 0.5 * math.cos(math.pi * (elapsed - warm_up) / (1 - warm_up)))
    rise = min(1.0, (step + 1) / max(1.0, warm_up * steps))
    return rise * ((1 - elapsed) ** settings.power if settings.schedule == "poly" else 1.0)


def moving_average(decay: float) -> Callable[[Sequence[Tensor], Sequence[Tensor], Tensor | int], None]:
    """For torch's `AveragedModel`: a moving average with a faster decay at the start."""

    @torch.no_grad()
    def update(average: Sequence[Tensor], current: Sequence[Tensor], count: Tensor | int) -> None:
        weight = min(decay, (1 + float(count)) / (10 + float(count)))
        for old, new in zip(average, current, strict=True):
            if old.is_floating_point():
                old.lerp_(new, 1 - weight)
            else:
                old.copy_(new)

    return update


def _rate_factor(name: str, settings: Optimizer) -> float:
    """Learning rate of a parameter relative to the rest."""
    if name.startswith(("network.encoder.", "network.network.encoder.", "network.second.encoder.")):
        return settings.encoder
    return settings.masks if name.startswith("network.mask_generator.") else 1.0
