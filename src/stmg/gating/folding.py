"""Folding: batch-norms taken into the convolutions before them, in any network, checked on an example."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from stmg.gating.calls import record_calls
from stmg.gating.gates import replace_module

FOLDABLE = (nn.Conv2d, nn.BatchNorm2d, nn.SyncBatchNorm)


def fold_batch_norm(network: nn.Module, example: Tensor) -> int:
    """Fold in place every batch-norm whose input is a convolution's output; the number folded.

    What is fed by what is seen on the example, not read from the code, so the result is compared with the network as
    it was, and what makes a difference is left alone.
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
        # Somewhere a convolution feeds more than its norm. Which one is found by trying each alone.
        return sum(_fold_if_same(network, example, modules, [pair], expected) for pair in pairs)


def _fold_if_same(
    network: nn.Module,
    example: Tensor,
    modules: dict[str, nn.Module],
    pairs: list[tuple[str, str]],
    expected: list[Tensor],
) -> bool:
    """Fold these pairs if the network then still gives what is expected."""
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
    """(convolution, norm) names where each is called once and the one feeds the other."""
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
