"""Gates: residual blocks that may be skipped and a head whose input may be blended, in any network.

A pass through a network carries its decisions in a context variable, not in the modules, so one set of weights serves
many streams in many threads, and outside a pass a gated network is the plain one.
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
    """What one pass through a gated network is to do, and what it leaves behind."""

    keep: Tensor | Sequence[bool] | None = None
    """Which blocks run. Booleans skip for good; a tensor (N, K) in [0, 1] blends, for training; None runs all."""
    blend: Blend | None = None
    """What to do to the head's input features before the head sees them."""
    features: list[Tensor] = field(default_factory=list)
    """The head's input, after blending."""
    meter: MacCounter | None = None
    """Counts what is executed; the shares of each block and of the head are then noted too."""
    block_macs: dict[int, int] = field(default_factory=dict)
    head_macs: int = 0
    tape: dict[int, list[Any]] | None = None
    """What each block gave, call by call: written by one pass, and handed out in the place of the blocks by another."""
    plays: bool = False
    """True if the tape is handed out, False if it is written."""

    def metered(self) -> int:
        """MACs so far."""
        return 0 if self.meter is None else self.meter.macs


_current: ContextVar[Pass | None] = ContextVar("stmg_pass", default=None)


@contextmanager
def running(now: Pass) -> Iterator[Pass]:
    """Every gated network called inside obeys this pass."""
    token = _current.set(now)
    try:
        yield now
    finally:
        _current.reset(token)


class _Wrapper(nn.Module):
    """Wraps a module and leaves no trace in the names of its tensors."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner
        self.copies = False
        """Whether what is handed on must be a copy, because the network writes on it later."""
        self.register_state_dict_post_hook(_hide_inner)  # type: ignore[no-untyped-call]
        self.register_load_state_dict_pre_hook(_restore_inner)  # type: ignore[no-untyped-call]

    def __getattr__(self, name: str) -> Any:
        """What the network asks of the module it knows (a weight, a setting) is answered by that module."""
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("inner"), name)


class Gate(_Wrapper):
    """A residual block, or the identity in its place."""

    def __init__(self, block: nn.Module, index: int, sources: tuple[int | None, ...], form: Any) -> None:
        """`sources` and `form` as in `residual.Block`: what the output is made of when the block is skipped."""
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
    """The head, with its input within reach."""

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
    """Put a module where `name` points to, and wherever else the same one stands."""
    old = network.get_submodule(name)
    for parent in list(network.modules()):
        for child_name, child in list(parent._modules.items()):
            if child is old and parent is not module:
                parent.register_module(child_name, module)


def remove_gates(network: nn.Module) -> nn.Module:
    """Take all gates and taps out again, in place; the network is what it was, with the weights it has now."""
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
