"""stmg inspect: what a network is made of, what of it can be skipped, and what that would save."""

from __future__ import annotations

import json

import torch
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from stmg.acceleration.cost import count_parameters
from stmg.commands.models import network_for


def inspect(
    model: str,
    size: tuple[int, int] | None,
    num_classes: int | None,
    device: str | None,
    as_json: bool,
    console: Console,
) -> int:
    """Print the prunable blocks of a model with their cost."""
    network, size = network_for(model, size, num_classes, device)
    image = torch.zeros(1, 3, *size, device=next(network.parameters()).device)
    costs = network.costs(image)
    skipped = costs.of_pass((False,) * len(network.blocks))
    facts = {
        "model": model,
        "size": list(size),
        "num_classes": network.num_classes,
        "params": count_parameters(network.network),
        "macs": costs.network,
        "macs_without_head": costs.network - costs.head,
        "macs_all_blocks_skipped": skipped,
        "head": network.head,
        "blocks": [
            {"name": block.name, "macs": block.macs, "params": block.params, "ms": round(block.ms, 3)}
            for block in network.blocks
        ],
        "notes": list(network.notes),
    }
    if as_json:
        console.print_json(json.dumps(facts))
        return 0
    table = Table("block", "MMACs", "share", "params", "ms", title=f"{escape(model)} at {size[0]}x{size[1]}")
    for block in network.blocks:
        share = f"{block.macs / max(costs.network, 1):.1%}"
        table.add_row(block.name, f"{block.macs / 1e6:.1f}", share, f"{block.params:,}", f"{block.ms:.2f}")
    console.print(table)
    console.print(f"{count_parameters(network.network):,} parameters, {network.num_classes} classes")
    console.print(
        f"{costs.network / 1e9:.2f} GMACs with the head ({network.head or 'none found'}), "
        f"{(costs.network - costs.head) / 1e9:.2f} without"
    )
    console.print(f"{skipped / 1e9:.2f} GMACs with all {len(network.blocks)} blocks skipped")
    for note in network.notes:
        console.print(f"[yellow]{escape(note)}[/]")
    return 0
