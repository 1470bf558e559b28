"""Why a module that looks like a residual block is none that can be skipped."""

from __future__ import annotations

import torch

from stmg.gating.accelerate import AcceleratedNetwork
from stmg.gating.residual import find_candidates, keeps_shape

OPENS = "as the first of its stage, which always runs"
SHAPE = "as it changes the shape of its input"
OTHER = "as it is not residual: with zero weights it does not give its input back"
UNUSED = "as it is not called when the network runs"
UNNAMED = "as the checkpoint does not name it among its blocks"


def explain_unlisted(network: AcceleratedNetwork, size: tuple[int, int]) -> dict[str, tuple[str, ...]]:
    """Names of siblings of one class that are no blocks of the network, by the reason; stages are left out."""
    plain = network.plain()
    if isinstance(plain, torch.jit.ScriptModule):
        return {}
    device = next((parameter.device for parameter in plain.parameters()), torch.device("cpu"))
    found = find_candidates(plain, torch.zeros(1, 3, *size, device=device, dtype=network.dtype))
    listed = {block.name for block in network.blocks}
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
                reason = OPENS if name == run[0] else UNNAMED
            reasons.setdefault(reason, []).append(name)
    return {reason: tuple(names) for reason, names in reasons.items()}
