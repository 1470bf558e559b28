"""Cost: multiply-accumulates and parameters of a network at one frame size, and of a frame of each level."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from stmg.streaming.schedulers import Level


class Cost(NamedTuple):
    """Multiply-accumulates and parameters that a frame used."""

    macs: int = 0
    """Multiply-accumulates, those of the mask generator included."""
    head_macs: int = 0
    """The head's part of `macs`, which the paper does not count."""
    params: int = 0
    """Parameters that were used."""

    def plus(self, other: Cost) -> Cost:
        """Add two costs."""
        return Cost(self.macs + other.macs, self.head_macs + other.head_macs, self.params + other.params)


class NetworkCost(NamedTuple):
    """Multiply-accumulates at one frame size, and parameters."""

    network: int
    blocks: tuple[int, ...]
    head: int
    mask_generator: int
    params: int
    block_params: tuple[int, ...]
    mask_params: int

    def of_pass(self, keep: Sequence[bool], area: float = 1.0) -> int:
        """MACs of the network without the skipped blocks, on a share of the pixels; the head always has all of them."""
        skipped = sum(macs for macs, runs in zip(self.blocks, keep, strict=True) if not runs)
        return round((self.network - self.head - skipped) * area) + self.head

    def of_frame(self, level: Level, keep: Sequence[bool], area: float = 1.0, masked: bool = False) -> Cost | None:
        """Compute the cost of a frame of a level; None if the network ran and its operations could not be counted.

        area: share of the pixels of a partial frame.
        masked: True if the mask generator ran.
        """
        masks = Cost(self.mask_generator, 0, self.mask_params) if masked else Cost()
        if level is Level.CARRY:
            return masks
        if not self.network:
            return None
        if level is Level.KEY:
            return Cost(masks.macs + self.network, self.head, masks.params + self.params)
        skipped = sum(params for params, runs in zip(self.block_params, keep, strict=True) if not runs)
        return Cost(masks.macs + self.of_pass(keep, area), self.head, masks.params + self.params - skipped)
