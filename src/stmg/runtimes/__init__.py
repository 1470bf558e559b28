"""Runtimes: what computes a frame, wherever it runs, behind the protocol of `stmg.streaming.runtime`."""

from __future__ import annotations

from builtins import callable as is_callable  # the module of this name shadows it here once it is imported
from typing import Any

from stmg.errors import ModelError, SettingsError
from stmg.streaming.runtime import Runtime


def make_runtime(network: Any, device: str | None = None) -> Runtime:
    """A runtime as it is, that of an (accelerated) network, or of any callable from an RGB image to logits."""
    if hasattr(network, "parameters"):
        from stmg.runtimes.torch import TorchRuntime

        return TorchRuntime(network, device=device)
    if device is not None:
        raise SettingsError(f"device={device!r} is for PyTorch networks; a {type(network).__name__} has its own")
    if isinstance(network, Runtime):
        return network
    if is_callable(network):
        from stmg.runtimes.callable import CallableRuntime

        return CallableRuntime(network)
    kind = type(network).__name__
    raise ModelError(f"a network is a torch module, a runtime or a callable from an RGB image to logits, not a {kind}")
