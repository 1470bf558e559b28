"""The engine protocol: what compiles a graph for this machine, with some of its blocks left out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

Arrays = dict[str, NDArray[Any]]
Run = Callable[[Arrays], Arrays]
"""From inputs to outputs, by name."""

DTYPES: dict[str, type[np.generic]] = {
    "uint8": np.uint8,
    "u8": np.uint8,
    "float": np.float32,
    "f32": np.float32,
    "float16": np.float16,
    "f16": np.float16,
}
"""By the names that engines have for them."""


class Pair(NamedTuple):
    """A block of a graph, by the names of tensors."""

    block: int
    skipped: str
    """What stands in when the block is left out."""
    given: str
    """What the block gives."""


class GraphOutput(NamedTuple):
    """An output of a plain graph."""

    name: str
    shape: tuple[int | str | None, ...]
    """What is no number is known only when it runs; empty if not even the number of axes is known."""
    is_float: bool
    is_sigmoid: bool
    """Whether a sigmoid makes it, so that its values are probabilities."""


class PlainGraph(NamedTuple):
    """A graph that somebody else exported."""

    compile: Callable[[int], Callable[[NDArray[Any]], NDArray[Any]]]
    """A function from its input to one of its outputs, by index."""
    shape: tuple[int | str | None, ...]
    """Of its input; what is no number is free."""
    dtype: type[np.generic] | None
    """Of its input; None if it is none of `DTYPES`."""
    outputs: tuple[GraphOutput, ...]


class Engine(Protocol):
    """Compiles graphs for this machine."""

    name: str
    version: str
    where: str
    """What it runs on, in its own words."""
    threads: int | None
    suffix: str
    """Of compiled graphs on disk."""

    def for_throughput(self) -> Engine:
        """The same engine for several runs at once, each on one core: slower for one frame, faster for many."""

    def compile(self, graph: Path, closed: Iterable[Pair], outputs: tuple[str, ...], cached: Path | None) -> Run:
        """A function from inputs to outputs by name, of the graph without the blocks of `closed`.

        With `cached`, a compiled graph is read from that file if it is there, and written to it if not.
        """

    def open(self, graph: Path) -> PlainGraph:
        """A plain graph of one input."""


def describe_engine(engine: Engine) -> str:
    """An engine in one line."""
    threads = f", {engine.threads} threads" if engine.threads else ""
    return f"{engine.name} {engine.version}, {engine.where}{threads}"
