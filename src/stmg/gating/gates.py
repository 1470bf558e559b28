"""Gates: make residual blocks of any network skippable, and the input of its head blendable.

A context variable, not the modules, holds the decisions of a pass. So one set of weights serves many streams in many
threads, and outside a pass a gated network equals the plain one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn
from torch.utils import _pytree as pytree

from stmg.gating.measure import MacCounter

Blend = Callable[[list[Tensor]], list[Tensor]]


@dataclass
class Pass:
    """Instructions for one pass through a gated network, and its results."""

    keep: Tensor | Sequence[bool] | None = None
    """Blocks to run. Booleans skip blocks; a tensor (N, K) in [0, 1] blends them, for training; None runs all."""
    blend: Blend | None = None
    """Function applied to the head's input features."""
    features: list[Tensor] = field(default_factory=list)
    """The head's input, after blending."""
    meter: MacCounter | None = None
    """Counts executed MACs. The shares of each block and of the head are then recorded too."""
    block_macs: dict[int, int] = field(default_factory=dict)
    head_macs: int = 0
    tape: dict[int, list[Any]] | None = None
    """Outputs of each block, one per call. One pass records them, another replays them instead of running blocks."""
    plays: bool = False
    """True to replay the tape, False to record it."""

    def metered(self) -> int:
        """MACs so far."""
        return 0 if self.meter is None else self.meter.macs


_current: ContextVar[Pass | None] = ContextVar("stmg_pass", default=None)


@contextmanager
def running(now: Pass) -> Iterator[Pass]:
    """Let every gated network that is called inside follow this pass."""
    token = _current.set(now)
    try:
        yield now
    finally:
        _current.reset(token)


class _Wrapper(nn.Module):
    """Wraps a module without changing the names of its tensors."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner
        self.copies = False
        """True if outputs must be copies, because the network writes to them later."""
        self.register_state_dict_post_hook(_hide_inner)  # type: ignore[no-untyped-call]
        self.register_load_state_dict_pre_hook(_restore_inner)  # type: ignore[no-untyped-call]

    def __getattr__(self, name: str) -> Any:
        """Forward attributes that the network reads (a weight, a setting) to the wrapped module."""
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("inner"), name)


class Gate(_Wrapper):
    """A residual block that may be replaced by the identity."""

    def __init__(self, block: nn.Module, index: int, sources: tuple[int | None, ...], form: Any) -> None:
        """`sources` and `form` as in `residual.Block`: they define the output of the skipped block."""
        super().__init__(block)
        self.index = index
        self.sources = sources
        self.form = form

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        now = _current.get()
        if now is None:
            return self.inner(*args, **kwargs)
        if now.tape is not None:
            return self._use_tape(now.tape.setdefault(self.index, []), now.plays, args, kwargs)
        if now.keep is None:
            before = now.metered()
            output = self.inner(*args, **kwargs)
            now.block_macs[self.index] = now.block_macs.get(self.index, 0) + now.metered() - before
            return output
        if isinstance(now.keep, Tensor):
            return self._blend(now.keep[:, self.index], args, kwargs)
        return self.inner(*args, **kwargs) if now.keep[self.index] else self._identity(args, kwargs)

    def _use_tape(self, tape: list[Any], plays: bool, args: Any, kwargs: Any) -> Any:
        if plays:
            return tape.pop(0)
        output = self.inner(*args, **kwargs)
        tape.append(pytree.tree_map(lambda leaf: leaf.clone() if isinstance(leaf, Tensor) else leaf, output))
        return output

    def _identity(self, args: Any, kwargs: Any) -> Any:
        inputs = pytree.tree_leaves((args, kwargs))
        outputs = [None if source is None else self._copy(inputs[source]) for source in self.sources]
        return pytree.tree_map(lambda number: outputs[number], self.form)

    def _copy(self, x: Tensor) -> Tensor:
        return x.clone() if self.copies else x

    def _blend(self, keep: Tensor, args: Any, kwargs: Any) -> Any:
        inputs = pytree.tree_leaves((args, kwargs))
        outputs, spec = pytree.tree_flatten(self.inner(*args, **kwargs))
        for number, source in enumerate(self.sources):
            if source is not None:
                x = inputs[source]
                share = keep.to(x.dtype).reshape(-1, *[1] * (x.dim() - 1))
                outputs[number] = x + share * (outputs[number] - x)
        return pytree.tree_unflatten(outputs, spec)


class Tap(_Wrapper):
    """The head of a network, with access to its input."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        now = _current.get()
        if now is None:
            return self.inner(*args, **kwargs)
        leaves, spec = pytree.tree_flatten((args, kwargs))
        features = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        if now.blend is not None:
            features = now.blend(features)
            rest = iter(features)
            leaves = [next(rest) if isinstance(leaf, Tensor) else leaf for leaf in leaves]
            args, kwargs = pytree.tree_unflatten(leaves, spec)
        now.features = [x.clone() for x in features] if self.copies else features
        before = now.metered()
        output = self.inner(*args, **kwargs)
        now.head_macs += now.metered() - before
        return output


def replace_module(network: nn.Module, name: str, module: nn.Module) -> None:
    """Replace the module called `name`, and all other references to it."""
    old = network.get_submodule(name)
    for parent in list(network.modules()):
        for child_name, child in list(parent._modules.items()):
            if child is old and parent is not module:
                parent.register_module(child_name, module)


def remove_gates(network: nn.Module) -> nn.Module:
    """Remove all gates and taps in place. The network keeps its current weights."""
    for name, child in list(network.named_children()):
        bare = child.inner if isinstance(child, _Wrapper) else child
        network.register_module(name, bare)
        remove_gates(bare)
    return network


def _hide_inner(module: nn.Module, state: dict[str, Any], prefix: str, _: Any) -> None:
    for name in [name for name in state if name.startswith(f"{prefix}inner.")]:
        state[prefix + name.removeprefix(f"{prefix}inner.")] = state.pop(name)


def _restore_inner(module: nn.Module, state: dict[str, Any], prefix: str, *_: Any) -> None:
    inner = module.get_submodule("inner")
    for name in list(inner.state_dict()):
        if prefix + name in state:
            state[f"{prefix}inner.{name}"] = state.pop(prefix + name)
