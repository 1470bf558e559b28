"""Feature aggregation: warp feature maps along a flow, and blend them where nothing changed."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from stmg.streaming.flow import Flow
from stmg.streaming.masks import partial_size


def aggregate(current: list[Tensor], previous: list[Tensor], changed: Tensor) -> list[Tensor]:
    """π' = m_sp π_cur + (1 - m_sp) π_pre for each map (N, C, h, w). `changed` is (N, 1, h', w') at any size.

    Current features of another size, from a frame computed at a smaller scale, are resized to the previous ones.
    """
    return [_blend(now, before, changed) for now, before in zip(current, previous, strict=True)]


def downscale(image: Tensor, scale: float) -> Tensor:
    """Resize an image (N, C, H, W) to the size at which partial frames are computed."""
    return _resize(image, partial_size((image.shape[2], image.shape[3]), scale))


def _blend(now: Tensor, before: Tensor, changed: Tensor) -> Tensor:
    size = before.shape[-2:]
    # lerp is exact at both ends: 0 gives the previous features, 1 the current ones.
    return before.to(now.dtype).lerp(_resize(now, size), _resize(changed.to(now.dtype), size))


def _resize(x: Tensor, size: tuple[int, ...]) -> Tensor:
    return x if x.shape[-2:] == size else F.interpolate(x, size=size, mode="bilinear", align_corners=False)


def warp_tensor(values: Tensor, flow: Flow | Tensor | None, *, nearest: bool = False) -> Tensor:
    """Warp maps (N, C, h, w) of the older frame onto the newer one. `flow` is one for all, or (N, h', w', 2)."""
    if flow is None:
        return values
    # Compute positions in single precision for all features: half precision cannot distinguish neighbors.
    number, _, height, width = values.shape
    steps = torch.as_tensor(flow, device=values.device).float()
    steps = (steps if steps.dim() == 4 else steps[None]).permute(0, 3, 1, 2)
    steps = F.interpolate(steps, size=(height, width), mode="bilinear", align_corners=False)
    rows = (torch.arange(height, device=values.device) + 0.5) / height
    columns = (torch.arange(width, device=values.device) + 0.5) / width
    positions = torch.stack(torch.meshgrid(columns, rows, indexing="xy")) + steps
    # Clamp to the centers of the outermost pixels. This repeats the border, which some devices cannot do themselves.
    edge = torch.tensor([1 - 1 / width, 1 - 1 / height], device=values.device)
    grid = (2 * positions - 1).permute(0, 2, 3, 1).clamp(-edge, edge).expand(number, -1, -1, -1)
    mode = "nearest" if nearest else "bilinear"
    warped = F.grid_sample(values.float(), grid, mode=mode, padding_mode="zeros", align_corners=False)
    return warped.to(values.dtype)


class NormalizeImage(nn.Module):
    """Convert RGB images (N, H, W, 3) of uint8 to network inputs (N, 3, H, W) of float32.

    mean, std: of each channel, for values from 0 to 1. The result is channels-last in memory, like the images.
    """

    mean: Tensor
    scale: Tensor

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor(mean).reshape(1, 3, 1, 1) * 255, persistent=False)
        self.register_buffer("scale", 1 / (torch.tensor(std).reshape(1, 3, 1, 1) * 255), persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        return (images.permute(0, 3, 1, 2).to(self.mean.dtype) - self.mean) * self.scale
