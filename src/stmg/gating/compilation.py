"""The whole network in one piece, without gates, for torch.compile."""

from __future__ import annotations

import copy
from collections.abc import Callable
from threading import Lock
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from stmg.errors import ModelError
from stmg.gating.accelerate import AcceleratedNetwork, NetworkOutput, find_logits
from stmg.gating.gates import remove_gates, replace_module


def compile_full(network: AcceleratedNetwork) -> Callable[[Tensor], NetworkOutput]:
    """What `network.full` does, compiled by torch.compile; the first image of each size waits for its compiler."""
    from torch._dynamo.exc import TorchDynamoException  # takes a second, which only those who compile should wait

    whole = torch.compile(WholeNetwork(network), dynamic=False)
    one_at_a_time = Lock()  # streams may share a runtime, and what the head was given is kept in the module

    def full(image: Tensor) -> NetworkOutput:
        try:
            with one_at_a_time:
                return NetworkOutput(*whole(image))
        except TorchDynamoException as error:
            reason = " ".join(str(error).split())[:200]
            raise ModelError(f"torch.compile does not work here, do without: {reason}") from error

    return full


class WholeNetwork(nn.Module):
    """A key frame as a plain function of tensors; it shares the accelerated network's weights."""

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
        """The head's input and the logits; the logits twice if there is no head."""
        logits = find_logits(self.network(image), self.output)
        return [logits] if self.head is None else self.head.inputs, logits


class _InputRecorder(nn.Module):
    """The head, and a copy of what it was last given."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner
        self.inputs: list[Tensor] = []

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        self.inputs = [leaf.clone() for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        return self.inner(*args, **kwargs)
