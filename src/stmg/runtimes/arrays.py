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
    _, height, width = before.shape
    then = moved(before, path)
    if now.shape[1:] != (height, width):
        larger: Any = cv2.resize(now.transpose(1, 2, 0), (width, height), interpolation=cv2.INTER_LINEAR)
        now = larger.reshape(height, width, -1).transpose(2, 0, 1)
    kept: Any = share
    if share.shape != (height, width):
        kept = cv2.resize(share, (width, height), interpolation=cv2.INTER_LINEAR)
    out: Array = now + kept * (then - now)
    return np.ascontiguousarray(out, np.float32)
