"""Masks: which blocks of a frame run and where features are reused, and the ablations of both."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from stmg.errors import SettingsError
from stmg.streaming.flow import Map

SPATIAL = ("adaptive", "uniform", "random", "fresh")
PRUNING = ("learned", "random", "none")
MASK_GAIN = 1.5  # chosen on stills of CamVid's training split: benchmarks/partial_frames.py
SIDE_MULTIPLE = 16  # pixels


class Masks(NamedTuple):
    """The parts of a frame to compute; the rest is reused."""

    keep: tuple[bool, ...]
    """K values, True = run residual block k."""
    changed: Map
    """The spatial mask m_sp, (h, w) in [0, 1]: 1 = take this cell from the current frame."""


@dataclass(frozen=True)
class Masking:
    """The masks that partial frames use."""

    spatial: str | float = "adaptive"
    """adaptive: the generated mask; uniform: its mean everywhere; random: its cells shuffled; fresh: everything from
    the current frame; a number: that value everywhere (the paper's CamVid setting is 0.8)."""
    gain: float = MASK_GAIN
    """Multiplies the generated mask, up to 1. The generator learns where labels change; features change elsewhere too,
    so more of the current frame is taken. 1: as generated, the paper's setting."""
    pruning: str | float = "learned"
    """learned: the blocks chosen by the generator; random: as many at random; none: all run; a number: that share of
    the blocks, at random, is pruned."""
    seed: int = 0

    def __post_init__(self) -> None:
        for what, value, names in (("spatial", self.spatial, SPATIAL), ("pruning", self.pruning, PRUNING)):
            allowed = value in names if isinstance(value, str) else isinstance(value, int | float) and 0 <= value <= 1
            if not allowed:
                raise SettingsError(
                    f"{what} masking is one of {', '.join(names)} or a number from 0 to 1; got {value!r}"
                )
        if not (isinstance(self.gain, int | float) and 0 < self.gain < math.inf):
            raise SettingsError(f"the gain of a mask is above 0; got {self.gain!r}")

    def __call__(self, masks: Masks, frame_number: int) -> Masks:
        """Return the masks to use on a frame. Random masks depend only on the seed and the frame's number."""
        rng = np.random.default_rng((self.seed, frame_number))
        changed, keep = np.minimum(np.float32(self.gain) * masks.changed, 1), masks.keep
        if self.spatial == "uniform":
            changed = np.full_like(changed, changed.mean())
        elif self.spatial == "random":
            changed = rng.permutation(changed.ravel()).reshape(changed.shape)
        elif self.spatial == "fresh":
            changed = np.ones_like(changed)
        elif not isinstance(self.spatial, str):
            changed = np.full_like(changed, self.spatial)
        if self.pruning == "random":
            keep = tuple(bool(value) for value in rng.permutation(keep))
        elif self.pruning == "none":
            keep = (True,) * len(keep)
        elif not isinstance(self.pruning, str):
            pruned = rng.permutation(len(keep))[: round(self.pruning * len(keep))]
            keep = tuple(index not in pruned for index in range(len(keep)))
        return Masks(keep, changed)


def partial_size(size: tuple[int, int], scale: float) -> tuple[int, int]:
    """(H, W) at which a partial frame is computed.

    Its sides are multiples of `SIDE_MULTIPLE`. A network rounds the sizes of its maps up, and maps that reach beyond
    the frame would not align with those that they are blended with.
    """
    if scale == 1:
        return size
    height, width = (min(side, max(1, round(scale * side / SIDE_MULTIPLE)) * SIDE_MULTIPLE) for side in size)
    return height, width


def partial_area(size: tuple[int, int], scale: float) -> float:
    """Compute the share of a frame's pixels that a partial frame is computed at."""
    height, width = partial_size(size, scale)
    return height * width / (size[0] * size[1])
