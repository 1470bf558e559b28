"""Measure modules in a run: inputs and outputs, multiply-accumulates, parameters and milliseconds."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry


@dataclass
class Call:
    """Inputs and output of a module on the example. Of several calls: the first."""

    order: int
    args: Any
    kwargs: dict[str, Any]
    output: Any
    times: int = 0


def record_calls(network: nn.Module, example: Tensor, names: list[str]) -> dict[str, Call]:
    """Run the network once in evaluation mode, and record the first call of each named module."""
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


class MacCounter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the multiply-accumulates of every convolution and matrix product executed inside, in this thread only.

    Do not use it under `inference_mode`, where PyTorch hides the operations from it.
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


def make_noise(example: Tensor) -> Tensor:
    """Noise with the shape of an example. Writing to zeros, as an in-place ReLU does, would not show."""
    return torch.randn(example.shape, generator=torch.Generator().manual_seed(0)).to(example)  # no draw of a training


def count_parameters(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def measure_ms(run: Callable[[], object], device: torch.device, repeats: int = 5) -> float:
    """Median milliseconds of a call, after two untimed calls."""
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
    """Wait until the device has finished, if its calls return early."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()
