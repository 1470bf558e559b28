"""stmg inspect: the parts of a network, the blocks that can be skipped, and the savings."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from stmg.cli.inspect_graph import show_graph
from stmg.cli.options import Options, make_spec, settings
from stmg.errors import SettingsError

if TYPE_CHECKING:
    from stmg.gating.accelerate import AcceleratedNetwork

SHOWN = 8  # maximum number of module names in one line
MODEL_HELP = (
    "A network (ddrnet39), shipped name (lite0-camvid), folder, Hub id, torchvision:NETWORK, smp:FOLDER, "
    "nets.py:function that returns a network, or .onnx, .xml, .tflite, .pt or .pt2 file."
)


@dataclass(frozen=True)
class BlockCost:
    """A residual block that can be skipped."""

    name: str
    macs: int
    params: int
    ms: float | None
    """None if it was not timed."""


@dataclass(frozen=True)
class Inspection:
    """A network at one frame size."""

    model: str
    size: tuple[int, int]
    num_classes: int
    params: int
    macs: int | None
    """None if they cannot be counted, because none of its operations is known."""
    macs_without_head: int | None
    macs_all_blocks_skipped: int | None
    head: str | None
    """The layer whose input is reused; None if none was found."""
    blocks: tuple[BlockCost, ...]
    unlisted: dict[str, tuple[str, ...]]
    """Modules that look like blocks but cannot be skipped, by reason."""
    notes: tuple[str, ...]
    """Limitations of the network."""

    def table(self) -> Table:
        title = f"{escape(self.model)} at {self.size[0]}x{self.size[1]}"
        table = Table("block", title=title)
        for head in ("MMACs", "share", "params", "ms"):
            table.add_column(head, justify="right")
        for block in self.blocks:
            share = f"{block.macs / max(self.macs or 0, 1):.1%}"
            ms = "-" if block.ms is None else f"{block.ms:.2f}"
            table.add_row(escape(block.name), f"{block.macs / 1e6:.1f}", share, f"{block.params:,}", ms)
        return table


def inspect(
    model: Annotated[str, typer.Argument(help=MODEL_HELP, show_default=False)],
    classes: Annotated[
        int | None,
        typer.Option(min=1, max=255, metavar="N", help="Number of classes of a network without weights. Default: 19."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    *,
    options: Annotated[
        Options,
        settings(
            *("size", "device", "threads", "network"),
            size="Frame size, such as 1024x2048. Default: the model's own, 360x480 if none.",
        ),
    ],
) -> None:
    """List the residual blocks of a network that can be skipped, what each costs, and why others are not listed.

    For a graph file or an exported folder: list its inputs and outputs, or its graphs and blocks.
    """
    from stmg.models.load import open_adapted
    from stmg.models.names import is_exported
    from stmg.runtimes.threads import set_threads
    from stmg.streaming.working_size import ANY_SIZE

    spec = make_spec(model, options)
    if is_exported(open_adapted(spec).name):
        if classes is not None:
            raise SettingsError(f"--classes cannot be used with {model}: it has its own")
        show_graph(spec, as_json, Console())
        return
    from stmg.models.torch_models import resolve_network

    set_threads(spec.settings.threads)
    accelerated, card = resolve_network(spec, num_classes=classes, timed=True)
    result = inspect_network(model, accelerated, spec.settings.size or card.size or ANY_SIZE)
    console = Console()
    if as_json:
        console.print_json(json.dumps(asdict(result)))
        return
    console.print(result.table())
    console.print(f"{result.params:,} parameters, {result.num_classes} classes")
    console.print(
        f"{_gmacs(result.macs)} with the head ({escape(result.head or 'none found')}), "
        f"{_gmacs(result.macs_without_head)} without"
    )
    console.print(f"{_gmacs(result.macs_all_blocks_skipped)} with all {len(result.blocks)} blocks skipped")
    for reason, names in result.unlisted.items():
        some = ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")
        console.print(f"not listed, {escape(reason)}: {escape(some)}", soft_wrap=True, highlight=False)
    for note in result.notes:
        console.print(f"[yellow]{escape(note)}[/]")


def _gmacs(macs: int | None) -> str:
    return "MACs not counted" if macs is None else f"{macs / 1e9:.2f} GMACs"


def inspect_network(name: str, network: AcceleratedNetwork, size: tuple[int, int]) -> Inspection:
    """Count the cost of the network and each of its blocks at a frame size."""
    import torch

    from stmg.gating.measure import count_parameters
    from stmg.gating.residual import explain_unlisted

    device = next((parameter.device for parameter in network.parameters()), torch.device("cpu"))
    costs = network.costs(torch.zeros(1, 3, *size, device=device, dtype=network.dtype))
    blocks = tuple(
        BlockCost(block.name, macs, block.params, None if math.isnan(block.ms) else round(block.ms, 3))
        for block, macs in zip(network.blocks, costs.blocks, strict=True)
    )
    return Inspection(
        model=name,
        size=size,
        num_classes=network.num_classes,
        params=count_parameters(network.network),
        macs=costs.network or None,
        macs_without_head=costs.network - costs.head if costs.network else None,
        macs_all_blocks_skipped=costs.of_pass((False,) * len(network.blocks)) if costs.network else None,
        head=network.head,
        blocks=blocks,
        unlisted=explain_unlisted(network, size),
        notes=tuple(network.notes),
    )
