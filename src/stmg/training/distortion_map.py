"""Distortion maps: where the labels of a frame are not those of the frame before, moved along the same motion."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor
from torch.nn import functional as F

from stmg.motion import move
from stmg.overlay import IGNORE


class DistortionMap(NamedTuple):
    """The truth for a spatial mask."""

    changed: Tensor
    """(N, 1, h, w) in [0, 1]: the share of a cell's pixels whose label changed."""
    known: Tensor
    """(N, 1, h, w): whether any of its pixels has a label in both frames."""


def distortion_map(before: Tensor, now: Tensor, field: Tensor | None, cells: tuple[int, int]) -> DistortionMap:
    """Compare labels (N, H, W) of two frames; `field` (N, h, w, 2) moves the older ones, None leaves them in place."""
    moved = move(before[:, None].float(), field, nearest=True)[:, 0].to(now.dtype)
    known = (moved != IGNORE) & (now != IGNORE)
    differ = (moved != now) & known
    share, counted = (F.adaptive_avg_pool2d(part[:, None].float(), cells) for part in (differ, known))
    return DistortionMap(share / counted.clamp(min=1e-6), counted > 0)
