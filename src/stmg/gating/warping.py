"""Warping of tensors along a flow, the counterpart of `streaming.flow.warp` on any device."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from stmg.streaming.flow import Flow


def warp_tensor(values: Tensor, flow: Flow | Tensor | None, *, nearest: bool = False) -> Tensor:
    """Warp maps (N, C, h, w) of the older frame onto the newer one; `flow` is one for all, or (N, h', w', 2)."""
    if flow is None:
        return values
    # Positions are in single precision whatever the features are: half precision cannot tell neighbors apart.
    number, _, height, width = values.shape
    steps = torch.as_tensor(flow, device=values.device).float()
    steps = (steps if steps.dim() == 4 else steps[None]).permute(0, 3, 1, 2)
    steps = F.interpolate(steps, size=(height, width), mode="bilinear", align_corners=False)
    rows = (torch.arange(height, device=values.device) + 0.5) / height
    columns = (torch.arange(width, device=values.device) + 0.5) / width
    positions = torch.stack(torch.meshgrid(columns, rows, indexing="xy")) + steps
    # Kept between the centers of the outermost pixels, which is what repeating the border means: some devices cannot.
    edge = torch.tensor([1 - 1 / width, 1 - 1 / height], device=values.device)
    grid = (2 * positions - 1).permute(0, 2, 3, 1).clamp(-edge, edge).expand(number, -1, -1, -1)
    mode = "nearest" if nearest else "bilinear"
    warped = F.grid_sample(values.float(), grid, mode=mode, padding_mode="zeros", align_corners=False)
    return warped.to(values.dtype)
