"""Grow a larger DDRNet from a smaller, trained one: it starts as the same function, and training uses the new capacity.

Wider: every channel is doubled, and the layers that read it take half of each copy. The halves differ by noise that
cancels out while the copies are equal, so that training can separate them. Deeper: a new block starts as the identity.
(Net2Net: Chen, Goodfellow and Shlens, 2016.)
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import torch
from torch import Tensor

from stmg.networks.ddrnet import DDRNet

NOISE = 0.3  # relative to a weight's standard deviation

_BLOCK = re.compile(r"(layer\d(?:_\d)?_?)\.(\d+)\.(.+)")
_FIRST_HALF, _SECOND_HALF = re.compile(r"3_1(?=[_.])"), re.compile(r"3_2(?=[_.])")
_END_OF_BRANCH = ("bn2.weight", "compression3_2.1.weight", "down3_2.1.weight")


def can_grow(network: object, state: Mapping[str, Tensor]) -> bool:
    """True if the tensors belong to a DDRNet that is narrower or shallower than this one."""
    if not isinstance(network, DDRNet) or "conv1.0.weight" not in state:
        return False
    own = {name: value for name, value in network.state_dict().items() if not name.startswith("seghead_extra")}
    both = [name for name in own if name in state and not name.startswith("final_layer.conv2")]
    fits = all(_factors(own[name], state[name]) is not None for name in both)
    return fits and (
        any(own[name].shape != state[name].shape for name in both) or any(name not in state for name in own)
    )


def grow(network: DDRNet, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors that make the network compute the same as the smaller one with `state`."""
    own = network.state_dict()
    grown = {}
    for name, fresh in own.items():
        source = _find_source(name, own, state)
        factors = _factors(fresh, state[source]) if source else None
        if source and factors is not None:
            grown[name] = _widen(state[source], *factors)
        elif name.endswith(_END_OF_BRANCH) and not name.startswith(("final_layer", "seghead_extra")):
            grown[name] = torch.zeros_like(fresh)
        else:
            grown[name] = fresh
    return grown


def _find_source(name: str, own: Mapping[str, Tensor], state: Mapping[str, Tensor]) -> str | None:
    """Name of the smaller network's tensor that this one grows from; None for a new block or exchange."""
    if _SECOND_HALF.search(name) and not any(_SECOND_HALF.search(each) for each in state):
        return None
    source_name = name if any(_FIRST_HALF.search(each) for each in state) else _FIRST_HALF.sub("3", name)
    block = _BLOCK.fullmatch(source_name)
    if block:
        stage, index, rest = block[1], int(block[2]), block[3]
        last, source_last = _count_blocks(own, name.split(".")[0]) - 1, _count_blocks(state, stage) - 1
        if index != last and index >= source_last > 0:
            return None
        source_name = f"{stage}.{source_last if index == last else index}.{rest}"
    return source_name if source_name in state else None


def _count_blocks(state: Mapping[str, Tensor], stage: str) -> int:
    return len({name.split(".")[1] for name in state if name.split(".")[0] == stage})


def _factors(larger: Tensor, smaller: Tensor) -> tuple[int, int] | None:
    """Number of copies of each output and of each input; None if the sizes are no multiples."""
    if larger.ndim != smaller.ndim or larger.shape[2:] != smaller.shape[2:]:
        return None
    sizes = [*zip(larger.shape[:2], smaller.shape[:2], strict=True), (1, 1), (1, 1)][:2]
    if any(large % small for large, small in sizes):
        return None
    (large_out, small_out), (large_in, small_in) = sizes
    return large_out // small_out, large_in // small_in


def _widen(tensor: Tensor, outputs: int, inputs: int) -> Tensor:
    if tensor.ndim == 0:
        return tensor
    wide = tensor.float().repeat_interleave(outputs, 0)
    if inputs == 1:
        return wide
    wide = wide.repeat_interleave(inputs, 1) / inputs
    noise = torch.randn(len(wide), wide.shape[1] // inputs, inputs, *wide.shape[2:])
    noise -= noise.mean(2, keepdim=True)
    grown: Tensor = wide + NOISE * wide.std() * noise.reshape(wide.shape)
    return grown
