"""Flow: where each pixel of a frame was in an earlier one; composing flows and warping along them.

A flow is (h, w, 2), float32: where each cell of the newer frame was in the older one, minus where it is now, x then y,
as fractions of the frame's width and height. So one flow serves an image, its features and its labels alike.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TypeVar

import cv2
import numpy as np
from numpy.typing import NDArray

from stmg.video.frames import MAX_SIDE

Flow = NDArray[np.float32]
Map = NDArray[np.float32]
"""(h, w), one value per cell."""
Array = TypeVar("Array", NDArray[np.uint8], NDArray[np.float32])

ERROR_OUTSIDE = 60  # of a pixel whose flow leaves the frame, in levels of 255
_MEAN = np.full((1, 3), 1 / 3, np.float32)  # of the color channels
_NEIGHBORS = np.ones((3, 3), np.uint8)
_ROW = 256  # positions in a row when sampling, unless that makes more rows than OpenCV takes
MAX_CHANNELS = 64  # that are warped at once; beyond its own limit OpenCV drops channels silently


def compose(older: Flow | None, newer: Flow | None) -> Flow | None:
    """Compose two flows: from the newest frame to the one before it (`newer`), and from there along `older`.

    None stands for no motion.
    """
    if older is None or newer is None:
        return newer if older is None else older
    total: Flow = newer + warp(older, newer)
    return total


def invert(flow: Flow | None) -> Flow | None:
    """Invert a flow by one step of fixed-point iteration.

    That is far cheaper than estimating it from the frames, and between neighbors more steps gain nothing. It is exact
    where the motion is smooth, and a guess where one thing hides another.
    """
    return None if flow is None else -warp(flow, -flow)


def warp(values: Array, flow: Flow | None, *, nearest: bool = False) -> Array:
    """Warp values of the older frame, (h, w) or (h, w, C) at any resolution, onto the newer one.

    Positions outside the frame repeat its border.
    """
    if flow is None:
        return values
    return remap(values, find_positions(flow, values.shape), nearest=nearest)


def find_positions(flow: Flow | None, shape: tuple[int, ...], stride: int = 1) -> Flow:
    """Find where each pixel of an image of this shape was in the older one, (h, w, 2) in pixels, x then y.

    stride: step in pixels along both axes. h and w are divided by it, rounded up.
    """
    height, width = shape[:2]
    grid = _grid(height, width, stride)
    if flow is None:
        return grid
    positions: Flow = cv2.multiply(flow, (width, height, 0, 0))
    if positions.shape != grid.shape:
        positions = cv2.resize(positions, grid.shape[1::-1], interpolation=cv2.INTER_LINEAR)
    cv2.add(positions, grid, dst=positions)
    return positions


def is_outside(positions: Flow, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """Mask (h, w) of the positions (h, w, 2) that lie outside a frame of this shape."""
    height, width = shape[:2]
    inside = cv2.inRange(positions, (-0.5, -0.5, 0, 0), (width - 0.5, height - 0.5, 0, 0))
    outside: NDArray[np.bool_] = inside == 0
    return outside


def match_error(before: NDArray[np.uint8], now: NDArray[np.uint8], flow: Flow | None) -> NDArray[np.uint8]:
    """Absolute difference (h, w) between a newer image and an older one warped onto it, in levels from 0 to 255.

    Both images are (h, w), or (h, w, 3) in color.
    """
    positions = find_positions(flow, now.shape)
    difference = cv2.absdiff(now, remap(before, positions))
    if difference.ndim == 3:
        difference = cv2.transform(difference, _MEAN)
    error = _blur(difference)
    error[is_outside(positions, now.shape)] = ERROR_OUTSIDE
    return error


def match_error_at(
    before: NDArray[np.uint8], now: NDArray[np.uint8], positions: Flow, pixels: NDArray[np.intp]
) -> NDArray[np.uint8]:
    """Like `match_error`, for N pixels of color images given by flat index, (N,). Cheaper where they are few.

    positions: where each pixel of the newer image was in the older, as `find_positions` gives it.
    """
    wanted = np.zeros(now.shape[:2], np.uint8)
    wanted.ravel()[pixels] = 1
    near = np.flatnonzero(cv2.dilate(wanted, _NEIGHBORS).view(np.bool_))  # the blur needs their neighbors too
    at = positions.reshape(-1, 1, 2)
    difference = np.zeros(now.shape[:2], np.uint8)
    colors = cv2.absdiff(now.reshape(-1, 1, 3).take(near, 0), _sample(before, at.take(near, 0)))
    difference.ravel()[near] = cv2.transform(colors, _MEAN).ravel()
    error = _blur(difference).ravel().take(pixels)
    error[is_outside(at.take(pixels, 0), now.shape).ravel()] = ERROR_OUTSIDE
    return error


def _blur(difference: NDArray[np.uint8]) -> NDArray[np.uint8]:
    blurred: NDArray[np.uint8] = cv2.GaussianBlur(difference, _NEIGHBORS.shape, 0)
    return blurred


def remap(values: Array, positions: Flow, *, nearest: bool = False) -> Array:
    """Sample the values (h, w) or (h, w, C) at the positions. Positions outside repeat the border."""
    interpolation = cv2.INTER_NEAREST if nearest else cv2.INTER_LINEAR

    def sample(part: Array) -> Array:
        sampled: Array = cv2.remap(part, positions, None, interpolation, borderMode=cv2.BORDER_REPLICATE)
        return sampled

    if values.ndim == 2 or values.shape[2] <= MAX_CHANNELS:
        return sample(values)
    starts = range(0, values.shape[2], MAX_CHANNELS)
    return np.dstack([sample(np.ascontiguousarray(values[:, :, at : at + MAX_CHANNELS])) for at in starts])


def sample_maps(maps: NDArray[np.float32], at: Flow, size: tuple[int, ...]) -> NDArray[np.float32]:
    """Sample maps (h, w, C) of a frame of `size`, (N, 1, C), at N positions (N, 1, 2) in its pixels, x then y."""
    across, down = maps.shape[1] / size[1], maps.shape[0] / size[0]
    scale = np.array([[across, 0, (across - 1) / 2], [0, down, (down - 1) / 2]], np.float32)
    return _sample(maps, cv2.transform(at, scale))


def _sample(values: Array, at: Flow) -> Array:
    """Sample values (h, w, C), (N, 1, C), at N positions (N, 1, 2) in their own pixels, x then y."""
    number = len(at)
    row = max(_ROW, -(-number // MAX_SIDE))
    # OpenCV samples images, so the positions are laid out as one, of rows that are short enough for it.
    positions = np.zeros((-(-number // row), row, 2), np.float32)
    positions.reshape(-1, 1, 2)[:number] = at
    return remap(values, positions).reshape(-1, 1, values.shape[2])[:number]


@lru_cache(maxsize=32)  # a frame needs up to six, and streams of other sizes have others
def _grid(height: int, width: int, stride: int) -> Flow:
    sides = (np.arange(0, side, stride, dtype=np.float32) for side in (width, height))
    return np.stack(np.meshgrid(*sides), axis=-1)
