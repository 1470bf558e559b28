"""Residual blocks of any network, found by their function, not their names.

A block is residual if it returns its input (or its ReLU) when all its parameters are zero. Candidates are siblings of
one class. Those that follow another of their stage can be skipped without changing any shape.
"""

from __future__ import annotations

import copy
import difflib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils import _pytree as pytree

from stmg.errors import ModelError
from stmg.gating.gates import Gate, Pass, replace_module, running
from stmg.gating.measure import Call, count_macs, count_parameters, make_noise, measure_ms, record_calls

if TYPE_CHECKING:
    from stmg.gating.accelerate import AcceleratedNetwork

# Reasons why a module that looks like a residual block cannot be skipped.
OPENS = "as the first of its stage, which always runs"
SHAPE = "as it changes the shape of its input"
OTHER = "as it is not residual: with zero weights it does not give its input back"
UNUSED = "as it is not called when the network runs"
HOOKED = "as the network collects what it gives by a hook, which a skipped block would not call"
UNNAMED = "as the checkpoint does not name it among its blocks"


@dataclass(frozen=True)
class Block:
    """A residual block that may be skipped."""

    name: str
    macs: int
    """Multiply-accumulates at the size of the example."""
    params: int
    ms: float
    """Milliseconds of the block alone, batch 1, on the example's device; NaN if it was not timed."""
    sources: tuple[int | None, ...] = field(repr=False)
    """For each leaf of its output, the input leaf that replaces it when skipped; None if it is no tensor."""
    form: Any = field(repr=False)
    """Structure of its output, with each leaf replaced by its number."""


def find_blocks(network: nn.Module, example: Tensor, timed: bool = False) -> tuple[Block, ...]:
    """Find the residual blocks that can be skipped, in the order of the network's modules."""
    return _describe_all(network, find_candidates(network, example), timed)


def _describe_all(network: nn.Module, found: Candidates, timed: bool = False) -> tuple[Block, ...]:
    return tuple(
        _describe(network.get_submodule(name), name, found.calls[name], found.residual[name], timed)
        for name in found.chosen
    )


class Candidates(NamedTuple):
    """Siblings of one class, and the properties that decide which can be skipped."""

    runs: list[list[str]]
    """Names of siblings that follow each other."""
    calls: dict[str, Call]
    """Calls of those that run."""
    residual: dict[str, tuple[int | None, ...]]
    """Residual ones, with the inputs that they add to."""
    stages: set[str]
    """Names of those that contain residual blocks. They are stages, even if they look like blocks."""

    @property
    def chosen(self) -> list[str]:
        """Names of those that can be skipped. The first sibling, and one that changes the shape, must run."""
        return [name for run in self.runs for name in run[1:] if name in self.residual and name not in self.stages]


def find_candidates(network: nn.Module, example: Tensor) -> Candidates:
    """Find the modules that may be blocks of a network, by their position and their function."""
    runs = _sibling_runs(network)
    calls = record_calls(network, example, [name for run in runs for name in run])
    residual = {}
    for name, call in calls.items():
        sources = _residual_sources(network.get_submodule(name), call)
        if sources is not None:
            residual[name] = sources
    stages = {name for name in residual if any(other.startswith(f"{name}.") for other in residual)}
    return Candidates(runs, calls, residual, stages)


def keeps_shape(call: Call) -> bool:
    """True if a module's output has the shape of one of its inputs."""
    return _sources(call, by_shape=True) is not None


def find_named_blocks(network: nn.Module, example: Tensor, names: list[str], timed: bool = False) -> tuple[Block, ...]:
    """Blocks that a user names, whatever they compute. Skipping them must keep every shape."""
    modules = dict(network.named_modules())
    if any(name not in modules for name in names):
        right = [block.name for block in find_blocks(network, example)]
        for name in names:
            require_submodule(network, name, kind="block", suggestions=right)
    for name in names:
        inside = [other for other in names if other.startswith(f"{name}.")]
        if inside:
            raise ModelError(f"block {inside[0]!r} lies inside block {name!r}; name one of them")
    calls = record_calls(network, example, names)
    blocks = []
    for name in names:
        if name not in calls:
            raise ModelError(f"block {name!r} is not called when the network runs")
        block, call = network.get_submodule(name), calls[name]
        sources = _residual_sources(block, call) or _sources(call, by_shape=True)
        if sources is None:
            raise ModelError(f"block {name!r} cannot be skipped: its output has another shape than its input")
        blocks.append(_describe(block, name, call, sources, timed))
    return tuple(blocks)


def require_submodule(network: nn.Module, name: str, kind: str, suggestions: list[str]) -> nn.Module:
    """The module of that name. Raise with suggestions if there is none."""
    modules: dict[str, nn.Module] = dict(network.named_modules())
    if name in modules and name:
        return modules[name]
    near = suggestions or difflib.get_close_matches(name, list(modules), n=5, cutoff=0.4)
    near = near or [child for child, _ in network.named_children()]
    raise ModelError(f"the network has no {kind} {name!r}; there are: {', '.join(near)}")


def explain_unlisted(network: AcceleratedNetwork, size: tuple[int, int]) -> dict[str, tuple[str, ...]]:
    """Names of siblings of one class that are not among the network's blocks, by reason. Stages are left out."""
    plain = network.plain()
    if isinstance(plain, torch.jit.ScriptModule):
        return {}
    device = next((parameter.device for parameter in plain.parameters()), torch.device("cpu"))
    example = torch.zeros(1, 3, *size, device=device, dtype=network.dtype)
    found = find_candidates(plain, example)
    listed = {block.name for block in network.blocks}
    is_hooked = not listed and not can_be_skipped(plain, _describe_all(plain, found), example)
    reasons: dict[str, list[str]] = {}
    for run in found.runs:
        for name in run:
            inside = any(name.startswith(f"{block}.") for block in listed | found.residual.keys())
            holds = any(block.startswith(f"{name}.") for block in listed | found.residual.keys())
            if name in listed or inside or holds:
                continue
            if name not in found.calls:
                reason = UNUSED
            elif not keeps_shape(found.calls[name]):
                reason = SHAPE
            elif name not in found.residual:
                reason = OTHER
            else:
                reason = OPENS if name == run[0] else HOOKED if is_hooked else UNNAMED
            reasons.setdefault(reason, []).append(name)
    return {reason: tuple(names) for reason, names in reasons.items()}


def can_be_skipped(network: nn.Module, blocks: tuple[Block, ...], example: Tensor) -> bool:
    """True if a network uses its blocks only through their outputs.

    Some, like most of transformers' backbones, collect these by hooks, so a block that is not called leaves a gap. For
    such networks, replaying each block's previous output without calling it changes the logits.
    """
    if not blocks:
        return True
    gated = copy.deepcopy(network).eval()
    for index, block in enumerate(blocks):
        replace_module(gated, block.name, Gate(gated.get_submodule(block.name), index, block.sources, block.form))
    tape: dict[int, list[Any]] = {}
    try:
        logits = []
        for plays in (False, True):
            with torch.no_grad(), running(Pass(tape=tape, plays=plays)):
                logits.append(_tensors(gated(make_noise(example))))
    except Exception:  # a network may raise anything when a collected output is missing
        return False
    before, after = logits
    return len(before) == len(after) and all(
        one.shape == two.shape and torch.allclose(one.float(), two.float(), rtol=1e-3, atol=1e-5, equal_nan=True)
        for one, two in zip(before, after, strict=True)
    )


def _tensors(output: object) -> list[Tensor]:
    leaves = output.values() if isinstance(output, Mapping) else pytree.tree_leaves(output)
    return [leaf for leaf in leaves if isinstance(leaf, Tensor)]


def _sibling_runs(network: nn.Module) -> list[list[str]]:
    """Names of two or more consecutive children of one class. Layers in between do not count."""
    runs = []
    for parent_name, parent in network.named_modules():
        run: list[str] = []
        kind: type | None = None
        for child_name, child in parent.named_children():
            if next(child.children(), None) is None:
                continue
            if type(child) is not kind:
                runs.append(run)
                run, kind = [], type(child)
            if kind not in (nn.Sequential, nn.ModuleList, nn.ModuleDict):
                run.append(f"{parent_name}.{child_name}".lstrip("."))
        runs.append(run)
    return [run for run in runs if len(run) > 1]


def _residual_sources(block: nn.Module, call: Call) -> tuple[int | None, ...] | None:
    """The inputs that a block adds to; None if it is not residual."""
    if _sources(call, by_shape=True) is None:
        return None
    inert = copy.deepcopy(block).eval()
    with torch.no_grad():
        for parameter in inert.parameters():
            parameter.zero_()
        args, kwargs = pytree.tree_map(_random_like, (call.args, call.kwargs))
        given, given_too = pytree.tree_map(_clone, (args, kwargs))  # a block may write to its input
        try:
            output = inert(*given, **given_too)
        except Exception:  # a block that cannot run on random values cannot be tested
            return None
    return _sources(Call(0, args, kwargs, output))


def _random_like(leaf: object) -> object:
    return torch.randn_like(leaf) if isinstance(leaf, Tensor) and leaf.is_floating_point() else leaf


def _clone(leaf: object) -> object:
    return leaf.clone() if isinstance(leaf, Tensor) else leaf


def _sources(call: Call, by_shape: bool = False) -> tuple[int | None, ...] | None:
    """For each output leaf, the input leaf that it equals (or whose ReLU or shape it has); None if one has none."""
    inputs = pytree.tree_leaves((call.args, call.kwargs))
    sources: list[int | None] = []
    for output in pytree.tree_leaves(call.output):
        if not isinstance(output, Tensor):
            sources.append(None)
            continue
        source = next((n for n, leaf in enumerate(inputs) if _can_replace(leaf, output, by_shape)), None)
        if source is None:
            return None
        sources.append(source)
    return tuple(sources) if any(source is not None for source in sources) else None


def _can_replace(leaf: object, output: Tensor, by_shape: bool) -> bool:
    if not isinstance(leaf, Tensor) or leaf.shape != output.shape or leaf.dtype != output.dtype:
        return False
    return by_shape or torch.equal(output, leaf) or torch.equal(output, F.relu(leaf))


def _describe(block: nn.Module, name: str, call: Call, sources: tuple[int | None, ...], timed: bool) -> Block:
    leaf = next(leaf for leaf in pytree.tree_leaves((call.args, call.kwargs)) if isinstance(leaf, Tensor))
    quiet = copy.deepcopy(block).eval()

    args, kwargs = pytree.tree_map(_clone, (call.args, call.kwargs))

    def run() -> object:
        return quiet(*args, **kwargs)

    return Block(
        name=name,
        macs=count_macs(run),
        params=count_parameters(block),
        ms=measure_ms(run, leaf.device) if timed else math.nan,
        sources=sources,
        form=pytree.tree_unflatten(range(len(sources)), pytree.tree_structure(call.output)),
    )
