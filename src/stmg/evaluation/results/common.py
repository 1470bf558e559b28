"""What every result has in common: where it comes from, sizes, percentages, costs and pictures."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

from stmg.evaluation.machine import Machine
from stmg.streaming.cost import Cost

Size = tuple[int, int]
"""(height, width)."""


def percent(share: float) -> float | None:
    """A share from 0 to 1 as results state it; None for NaN."""
    return None if math.isnan(share) else round(100 * share, 3)


@dataclass(frozen=True, kw_only=True)
class Result:
    """What every result says of where it comes from."""

    kind: ClassVar[str]
    command: str = ""
    """What was typed; empty if the result was computed from Python."""
    machine: Machine
    model: str
    interrupted: bool = False
    """Whether Ctrl-C ended it early: what was measured until then is there."""


@dataclass(frozen=True)
class Picture:
    """A picture that only the run itself could draw, a PNG file beside the result."""

    file: str
    caption: str
    png: bytes = field(default=b"", repr=False)


@dataclass(frozen=True)
class FrameCost:
    """Executed by a mean frame."""

    macs: int
    """Multiply-accumulates, those of the mask generator included."""
    macs_without_head: int
    """As the paper counts."""
    params: int

    @classmethod
    def of(cls, cost: Cost | None) -> FrameCost | None:
        return None if cost is None else cls(cost.macs, cost.macs - cost.head_macs, cost.params)
