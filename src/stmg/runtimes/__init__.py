"""Runtimes: PyTorch, functions, graph files and exports, each a class derived from `stmg.streaming.runtime`."""

from __future__ import annotations

from builtins import callable as is_callable  # the module of this name shadows it here once it is imported
from os import PathLike
from typing import Any

from stmg.errors import ModelError, SettingsError
from stmg.streaming.runtime import Runtime
from stmg.video.normalization import Normalization


def make_runtime(
    network: Any,
    device: str | None = None,
    normalize: Normalization | None = None,
    size: tuple[int, int] | None = None,
) -> Runtime:
    """The runtime of a network or of a function from an RGB image to logits; a runtime stays as it is.

    size: (H, W) of the images that a network takes, where it does not take any.
    """
    if isinstance(network, str | PathLike):
        raise SettingsError(f"for a name, stmg.load: stmg.load({str(network)!r}); here the network itself is given")
    if hasattr(network, "parameters"):
        from stmg.runtimes.torch import TorchRuntime

        mean, std = (None, None) if normalize is None else (normalize.mean, normalize.std)
        return TorchRuntime(network, device=device, mean=mean, std=std, size=size)
    if normalize is not None:
        raise SettingsError(f"normalize is for PyTorch networks; a {type(network).__name__} normalizes by itself")
    if device is not None:
        raise SettingsError(f"device={device!r} is for PyTorch networks; a {type(network).__name__} has its own")
    if isinstance(network, Runtime):
        return network
    if is_callable(network):
        from stmg.runtimes.callable import CallableRuntime

        return CallableRuntime(network)
    networks = "a torch module, a function from an RGB image to logits or a stmg.Runtime"
    raise ModelError(f"a network is {networks}, not a {type(network).__name__}")
