"""Features and logits as numpy arrays: warped, resized and fused, for every runtime that is not PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from stmg.streaming.flow import Flow, Map, warp
from stmg.video.labels import resize_plane

Array = NDArray[np.float32]


def warp_maps(maps: Array, flow: Flow | None) -> Array:
    """Maps (C, h, w) warped along a flow."""
    if flow is None:
        return maps
    _, height, width = maps.shape
    channels_last: Any = warp(np.ascontiguousarray(maps.transpose(1, 2, 0)), flow)
    # OpenCV drops the axis of a single channel.
    warped: Array = channels_last.reshape(height, width, -1).transpose(2, 0, 1)
    return np.ascontiguousarray(warped)


def fuse_logits(now: Array, before: Array, flow: Flow | None, share: Map) -> Array:
    """Logits (C, h, w) averaged with earlier ones, warped along a flow, which count for `share` (any h, any w)."""
    size = before.shape[1:]
    then = warp_maps(before, flow)
    now = np.stack([resize_plane(plane, size) for plane in now])
    out: Array = now + resize_plane(share, size) * (then - now)
    return np.ascontiguousarray(out, np.float32)
