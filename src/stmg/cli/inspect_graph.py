"""Description of a graph file or an exported folder: its inputs, outputs and, if known, the cost of its blocks."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from stmg.errors import SettingsError

if TYPE_CHECKING:
    from stmg.models.spec import ModelSpec


@dataclass(frozen=True)
class GraphPart:
    """An input or output of a graph file; a graph or skippable block of an export."""

    kind: str
    """input, output, graph or block."""
    name: str
    detail: str
    """The shape of a tensor, the file of a graph, MACs and parameters of a block."""


@dataclass(frozen=True)
class GraphInspection:
    """A graph file or an exported folder."""

    model: str
    engine: str
    size: tuple[int, int] | None
    """(H, W) of its frames; None for any size."""
    num_classes: int | None
    """None if it is unknown before running it."""
    macs: int | None
    params: int | None
    parts: tuple[GraphPart, ...]
    notes: tuple[str, ...]

    def table(self) -> Table:
        size = "any size" if self.size is None else f"{self.size[0]}x{self.size[1]}"
        table = Table("part", "name", "what it is", title=f"{escape(self.model)} at {size}")
        for part in self.parts:
            table.add_row(part.kind, escape(part.name), escape(part.detail))
        return table


def show_graph(spec: ModelSpec, as_json: bool, console: Console) -> None:
    """Print the description of a graph."""
    result = inspect_graph(spec)
    if as_json:
        console.print_json(json.dumps(asdict(result)))
        return
    console.print(result.table())
    console.print(escape(result.engine))
    if result.macs is not None:
        console.print(f"{result.params:,} parameters, {result.num_classes} classes, {result.macs / 1e9:.2f} GMACs")
    for note in result.notes:
        console.print(f"[yellow]{escape(note)}[/]", soft_wrap=True)


def inspect_graph(spec: ModelSpec) -> GraphInspection:
    """Open a graph and describe it."""
    from stmg.models.load import resolve
    from stmg.runtimes.exported import ExportedRuntime
    from stmg.runtimes.graph import GraphRuntime

    runtime, size = resolve(spec).runtime, spec.settings.size
    if size not in (None, runtime.input_size):
        raise SettingsError(f"--size cannot be used with {spec.name}: nothing of a graph file is computed here")
    if isinstance(runtime, ExportedRuntime):
        manifest = runtime.manifest
        costs = manifest.costs
        parts = [GraphPart("graph", name, graph.file) for name, graph in manifest.graphs.items()]
        parts += [
            GraphPart("block", str(number), f"{macs / 1e6:.1f} MMACs, {params:,} parameters")
            for number, (macs, params) in enumerate(zip(costs.blocks, costs.block_params, strict=True))
        ]
        partial = "whole frames only"
        if manifest.blocks is not None:
            some = f"{sum(manifest.blocks)} of {len(manifest.blocks)} blocks"
            partial = f"with partial frames of {some} at {manifest.partial_scale:g} of the size"
        notes = (f"exported for {manifest.kind}, {'INT8' if manifest.bits == 8 else 'FP32'}, {partial}",)
        return GraphInspection(
            model=spec.name,
            engine=runtime.description,
            size=runtime.input_size,
            num_classes=manifest.num_classes,
            macs=costs.network or None,
            params=costs.params,
            parts=tuple(parts),
            notes=(*notes, *runtime.block_notes, *runtime.notes),
        )
    assert isinstance(runtime, GraphRuntime)
    graph = runtime.graph
    parts = [GraphPart("input", "image", _shape(graph.shape))]
    parts += [GraphPart("output", output.name, _shape(output.shape)) for output in graph.outputs]
    return GraphInspection(
        model=spec.name,
        engine=runtime.description,
        size=runtime.input_size,
        num_classes=runtime.num_classes,
        macs=None,
        params=None,
        parts=tuple(parts),
        notes=(*runtime.block_notes, *runtime.notes),
    )


def _shape(shape: tuple[int | str | None, ...]) -> str:
    return "x".join(str(side) if isinstance(side, int) else "?" for side in shape) or "of any shape"
