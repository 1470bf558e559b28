"""Class scores as numpy arrays: averaged with earlier ones, for every runtime that is not PyTorch."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from stmg.motion import Field, move
from stmg.state import Map

Array = NDArray[np.float32]


def moved(maps: Array, path: Field | None) -> Array:
    """Maps (C, h, w) moved along a path."""
    if path is None:
        return maps
    _, height, width = maps.shape
    last: Any = move(np.ascontiguousarray(maps.transpose(1, 2, 0)), path)
    back: Array = last.reshape(height, width, -1).transpose(2, 0, 1)  # OpenCV drops the axis of a single channel
    return np.ascontiguousarray(back)


def fused(now: Array, before: Array, path: Field | None, share: Map) -> Array:
    """Scores (C, h, w) averaged with earlier ones, moved along a path, which count for `share` (any h, any w)."""
    size = before.shape[1:]
    then = moved(before, path)
    now = np.stack([resized(plane, size) for plane in now])
    out: Array = now + resized(share, size) * (then - now)
    return np.ascontiguousarray(out, np.float32)


def resized(plane: Map, size: tuple[int, ...]) -> Map:
    """A plane (h, w) at another size."""
    if plane.shape == size:
        return plane
    out: Map = cv2.resize(plane, size[::-1], interpolation=cv2.INTER_LINEAR)
    return out
