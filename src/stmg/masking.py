"""Masking: what is done to a frame's masks before they are used; anything but the default is an ablation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stmg.state import Masks

SPATIAL = ("adaptive", "uniform", "random", "fresh")
PRUNING = ("learned", "random", "none")


@dataclass(frozen=True)
class Masking:
    """Which masks partial frames use."""

    spatial: str | float = "adaptive"
    """adaptive: the mask as generated; uniform: its mean everywhere; random: its cells shuffled; fresh: everything from
    the current frame; a number: that value everywhere (the paper's CamVid setting is 0.8)."""
    pruning: str | float = "learned"
    """learned: the blocks chosen by the generator; random: as many, drawn; none: all run; a number: that share of the
    blocks, drawn, is pruned."""
    seed: int = 0

    def __post_init__(self) -> None:
        for what, value, names in (("spatial", self.spatial, SPATIAL), ("pruning", self.pruning, PRUNING)):
            allowed = value in names if isinstance(value, str) else 0 <= value <= 1
            if not allowed:
                raise ValueError(f"{what} masking is one of {', '.join(names)} or a number from 0 to 1; got {value!r}")

    def __call__(self, masks: Masks, frame_number: int) -> Masks:
        """The masks to use on a frame; draws depend on the seed and the frame's number alone."""
        draw = np.random.default_rng((self.seed, frame_number))
        changed, keep = masks.changed, masks.keep
        if self.spatial == "uniform":
            changed = np.full_like(changed, changed.mean())
        elif self.spatial == "random":
            changed = draw.permutation(changed.ravel()).reshape(changed.shape)
        elif self.spatial == "fresh":
            changed = np.ones_like(changed)
        elif not isinstance(self.spatial, str):
            changed = np.full_like(changed, self.spatial)
        if self.pruning == "random":
            keep = tuple(bool(value) for value in draw.permutation(keep))
        elif self.pruning == "none":
            keep = (True,) * len(keep)
        elif not isinstance(self.pruning, str):
            dropped = draw.permutation(len(keep))[: round(self.pruning * len(keep))]
            keep = tuple(index not in dropped for index in range(len(keep)))
        return Masks(keep, changed)
