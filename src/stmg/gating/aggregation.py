"""Feature aggregation: current features where the frame changed, the warped features of the frame before elsewhere."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from stmg.streaming.masks import partial_size


def aggregate(current: list[Tensor], previous: list[Tensor], changed: Tensor) -> list[Tensor]:
    """π' = m_sp π_cur + (1 - m_sp) π_pre for each map (N, C, h, w); `changed` is (N, 1, any h, any w).

    Current features of another size, from a frame computed at a smaller scale, are brought to that of the previous.
    """
    return [_blend(now, before, changed) for now, before in zip(current, previous, strict=True)]


def downscale(image: Tensor, scale: float) -> Tensor:
    """An image (N, C, H, W) at the size at which partial frames are computed."""
    return _resize(image, partial_size((image.shape[2], image.shape[3]), scale))


def _blend(now: Tensor, before: Tensor, changed: Tensor) -> Tensor:
    size = before.shape[-2:]
    # lerp is exact at both ends: 0 gives the previous features back, 1 the current ones.
    return before.to(now.dtype).lerp(_resize(now, size), _resize(changed.to(now.dtype), size))


def _resize(x: Tensor, size: tuple[int, ...]) -> Tensor:
    return x if x.shape[-2:] == size else F.interpolate(x, size=size, mode="bilinear", align_corners=False)
