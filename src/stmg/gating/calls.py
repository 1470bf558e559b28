"""Calls: what goes into the modules of a network and what comes out, recorded on one run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn


@dataclass
class Call:
    """What went into a module and what came out, on the example; of several calls the first."""

    order: int
    args: Any
    kwargs: dict[str, Any]
    output: Any
    times: int = 0


def record_calls(network: nn.Module, example: Tensor, names: list[str]) -> dict[str, Call]:
    """Run the network once, in evaluation mode, and note the first call of each named module."""
    calls: dict[str, Call] = {}
    finished: list[str] = []

    def note(name: str) -> Callable[..., None]:
        def hook(_: nn.Module, args: Any, kwargs: dict[str, Any], output: Any) -> None:
            finished.append(name)
            calls.setdefault(name, Call(len(finished), args, kwargs, output)).times += 1

        return hook

    modules = dict(network.named_modules())
    handles = [modules[name].register_forward_hook(note(name), with_kwargs=True) for name in names]
    training = {module: module.training for module in network.modules()}
    network.eval()
    try:
        with torch.no_grad():
            network(example.clone())
    finally:
        for handle in handles:
            handle.remove()
        for module, mode in training.items():
            module.training = mode
    return calls
