"""Faster forms of the same network: batch-norms folded into convolutions, checked on an example, and torch.compile."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from threading import Lock
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval
from torch.utils import _pytree as pytree

from stmg.errors import ModelError
from stmg.gating.accelerate import AcceleratedNetwork, NetworkOutput
from stmg.gating.gates import remove_gates, replace_module
from stmg.gating.measure import record_calls
from stmg.gating.outputs import find_logits

FOLDABLE = (nn.Conv2d, nn.BatchNorm2d, nn.SyncBatchNorm)


def fold_batch_norm(network: nn.Module, example: Tensor) -> int:
    """Fold every batch-norm whose input is a convolution's output, in place. Return the number folded.

    Which convolution feeds which norm is observed on the example, not read from the code. So the result is compared
    with the original network, and folds that change it are undone.
    """
    network.eval()
    modules: dict[str, nn.Module] = {
        name: module for name, module in network.named_modules() if isinstance(module, FOLDABLE)
    }
    pairs = _pairs(network, example, modules)
    with torch.no_grad():
        expected = _tensors(network(example.clone()))
        if _fold_if_same(network, example, modules, pairs, expected):
            return len(pairs)
        # Some convolution feeds more than its norm. Find it by trying each pair alone.
        return sum(_fold_if_same(network, example, modules, [pair], expected) for pair in pairs)


def _fold_if_same(
    network: nn.Module,
    example: Tensor,
    modules: dict[str, nn.Module],
    pairs: list[tuple[str, str]],
    expected: list[Tensor],
) -> bool:
    """Fold these pairs. Undo it and return False if the network's output changes."""
    for convolution, norm in pairs:
        layer, batch_norm = modules[convolution], modules[norm]
        assert isinstance(layer, nn.Conv2d)
        assert isinstance(batch_norm, nn.modules.batchnorm._BatchNorm)
        replace_module(network, convolution, fuse_conv_bn_eval(layer, batch_norm))
        replace_module(network, norm, nn.Identity())
    output = _tensors(network(example.clone()))
    if all(_is_close(old, new) for old, new in zip(expected, output, strict=True)):
        return True
    for convolution, norm in pairs:
        replace_module(network, convolution, modules[convolution])
        replace_module(network, norm, modules[norm])
    return False


def _pairs(network: nn.Module, example: Tensor, modules: dict[str, nn.Module]) -> list[tuple[str, str]]:
    """Names (convolution, norm) of pairs in which each is called once and the first feeds the second."""
    calls = {name: call for name, call in record_calls(network, example, list(modules)).items() if call.times == 1}
    producers = {id(call.output): name for name, call in calls.items() if isinstance(modules[name], nn.Conv2d)}
    norms = [name for name in calls if not isinstance(modules[name], nn.Conv2d)]
    sources = {name: producers.get(id(calls[name].args[0])) for name in norms}
    return [(source, name) for name, source in sources.items() if source is not None]


def _is_close(old: Tensor, new: Tensor) -> bool:
    largest = float(old.abs().max())
    return math.isfinite(largest) and torch.allclose(old, new, rtol=1e-3, atol=1e-3 * largest)


def _tensors(output: object) -> list[Tensor]:
    return [leaf for leaf in torch.utils._pytree.tree_leaves(output) if isinstance(leaf, Tensor)]


def compile_full(network: AcceleratedNetwork) -> Callable[[Tensor], NetworkOutput]:
    """`network.full`, compiled by torch.compile. The first image of each size waits for the compiler."""
    from torch._dynamo.exc import TorchDynamoException  # this import takes a second, so do it only here

    whole = torch.compile(WholeNetwork(network), dynamic=False)
    one_at_a_time = Lock()  # streams may share a runtime, and the module stores the head's input

    def full(image: Tensor) -> NetworkOutput:
        try:
            with one_at_a_time:
                return NetworkOutput(*whole(image))
        except TorchDynamoException as error:
            reason = " ".join(str(error).split())[:200]
            raise ModelError(f"torch.compile does not work here, do without: {reason}") from error

    return full


class WholeNetwork(nn.Module):
    """A key frame as a plain function of tensors, sharing the accelerated network's weights."""

    def __init__(self, network: AcceleratedNetwork) -> None:
        super().__init__()
        tensors = [*network.network.parameters(), *network.network.buffers()]
        self.network = remove_gates(copy.deepcopy(network.network, {id(tensor): tensor for tensor in tensors}))
        self.output = network.output
        self.head: _InputRecorder | None = None
        if network.head is not None:
            self.head = _InputRecorder(self.network.get_submodule(network.head))
            replace_module(self.network, network.head, self.head)

    def forward(self, image: Tensor) -> tuple[list[Tensor], Tensor]:
        """The head's input and the logits. Without a head: the logits twice."""
        logits = find_logits(self.network(image), self.output, image.shape[2:])
        return [logits] if self.head is None else self.head.inputs, logits


class _InputRecorder(nn.Module):
    """The head, and a copy of its last input."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner
        self.inputs: list[Tensor] = []

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        self.inputs = [leaf.clone() for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        return self.inner(*args, **kwargs)
