"""Distortion maps: where the labels of a frame differ from those of the frame before, warped along the same flow."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor
from torch.nn import functional as F

from stmg.gating.warping import warp_tensor
from stmg.video.labels import IGNORE


class DistortionMap(NamedTuple):
    """The truth for a spatial mask."""

    changed: Tensor
    """(N, 1, h, w) in [0, 1]: the share of a cell's pixels whose label changed."""
    known: Tensor
    """(N, 1, h, w): whether any of its pixels has a label in both frames."""


def distortion_map(before: Tensor, now: Tensor, flow: Tensor | None, cells: tuple[int, int]) -> DistortionMap:
    """Compare labels (N, H, W) of two frames; `flow` (N, h, w, 2) warps the older ones, if it is given."""
    warped = warp_tensor(before[:, None].float(), flow, nearest=True)[:, 0].to(now.dtype)
    known = (warped != IGNORE) & (now != IGNORE)
    differ = (warped != now) & known
    changed, known_share = (F.adaptive_avg_pool2d(part[:, None].float(), cells) for part in (differ, known))
    return DistortionMap(changed / known_share.clamp(min=1e-6), known_share > 0)
