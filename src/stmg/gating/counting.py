"""Cost: what a module executes in multiply-accumulates, what it holds in parameters, what it takes in milliseconds."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry


class MacCounter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Adds up the multiply-accumulates of every convolution and matrix product executed inside, in this thread only.

    Use it without `inference_mode`, under which PyTorch hides the operations from it.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.macs: int = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        output = func(*args, **(kwargs or {}))
        rule = flop_registry.get(func._overloadpacket)
        if rule is not None:
            self.macs += rule(*args, **(kwargs or {}), out_val=output) // 2
        return output


def count_macs(run: Callable[[], object]) -> int:
    """Multiply-accumulates that a call executes."""
    with torch.no_grad(), MacCounter() as counter:
        run()
    macs: int = counter.macs
    return macs


def count_parameters(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def measure_ms(run: Callable[[], object], device: torch.device, repeats: int = 5) -> float:
    """Median time of a call, after two that do not count."""
    taken = []
    with torch.inference_mode():
        for _ in range(repeats + 2):
            synchronize(device)
            started = time.perf_counter()
            run()
            synchronize(device)
            taken.append(1000 * (time.perf_counter() - started))
    return median(taken[2:])


def synchronize(device: torch.device) -> None:
    """Wait for the device, where calls return before the work is done."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()
