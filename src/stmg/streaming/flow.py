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

OUTSIDE = 60  # the error of a pixel whose flow leaves the frame, in levels of 255
_MEAN = np.full((1, 3), 1 / 3, np.float32)  # of the color channels
_ROW = 256  # positions that are sampled at once, unless that makes more rows than OpenCV takes
MAX_CHANNELS = 64  # that OpenCV warps at once; beyond its limit it drops channels without a word


def compose(older: Flow | None, newer: Flow | None) -> Flow | None:
    """The flow from the newest frame through the one before it (`newer`) to where `older` leads from there.

    None stands for no motion.
    """
    if older is None or newer is None:
        return newer if older is None else older
    total: Flow = newer + warp(older, newer)
    return total


def invert(flow: Flow | None) -> Flow | None:
    """The flow of the opposite direction, by fixed-point iteration: far cheaper than estimating it from the frames.

    Exact where the motion is smooth; where one thing hides another there is no inverse, and it is a guess.
    """
    if flow is None:
        return None
    inverse: Flow = -flow
    for _ in range(2):
        inverse = -warp(flow, inverse)
    return inverse


def warp(values: Array, flow: Flow | None, *, nearest: bool = False) -> Array:
    """Warp what belongs to the older frame, (h, w) or (h, w, C) at any resolution, onto the newer one.

    What comes from outside the frame repeats its border.
    """
    if flow is None:
        return values
    return remap(values, find_positions(flow, values.shape), nearest=nearest)


def find_positions(flow: Flow | None, shape: tuple[int, ...]) -> Flow:
    """Where each pixel of an image of this shape was in the older one, (h, w, 2) in pixels, x then y."""
    height, width = shape[:2]
    if flow is None:
        return _grid(height, width)
    positions: Flow = cv2.multiply(flow, (width, height, 0, 0))
    if flow.shape[:2] != (height, width):
        positions = cv2.resize(positions, (width, height), interpolation=cv2.INTER_LINEAR)
    cv2.add(positions, _grid(height, width), dst=positions)
    return positions


def is_outside(positions: Flow) -> NDArray[np.bool_]:
    """Where positions lie outside the older frame, which therefore does not show what is there, (h, w)."""
    height, width = positions.shape[:2]
    inside = cv2.inRange(positions, (-0.5, -0.5, 0, 0), (width - 0.5, height - 0.5, 0, 0))
    outside: NDArray[np.bool_] = inside == 0
    return outside


def match_error(before: NDArray[np.uint8], now: NDArray[np.uint8], flow: Flow | None) -> NDArray[np.uint8]:
    """How badly an older image, warped, explains each pixel (h, w) of a newer one of its shape, in levels of 255.

    Both are (h, w), or (h, w, 3) in color.
    """
    positions = find_positions(flow, now.shape)
    difference = cv2.absdiff(now, remap(before, positions))
    if difference.ndim == 3:
        difference = cv2.transform(difference, _MEAN)
    error: NDArray[np.uint8] = cv2.GaussianBlur(difference, (3, 3), 0)
    error[is_outside(positions)] = OUTSIDE
    return error


def remap(values: Array, positions: Flow, *, nearest: bool = False) -> Array:
    """The values (h, w) or (h, w, C) at each of the positions; what comes from outside repeats the border."""
    interpolation = cv2.INTER_NEAREST if nearest else cv2.INTER_LINEAR

    def sample(part: Array) -> Array:
        sampled: Array = cv2.remap(part, positions, None, interpolation, borderMode=cv2.BORDER_REPLICATE)
        return sampled

    if values.ndim == 2 or values.shape[2] <= MAX_CHANNELS:
        return sample(values)
    starts = range(0, values.shape[2], MAX_CHANNELS)
    return np.dstack([sample(np.ascontiguousarray(values[:, :, at : at + MAX_CHANNELS])) for at in starts])


def sample_maps(maps: NDArray[np.float32], at: NDArray[np.float32], size: tuple[int, ...]) -> NDArray[np.float32]:
    """Maps (h, w, C) of a frame of `size` at N positions (x, y) of its pixels, (N, C)."""
    height, width, channels = maps.shape
    number = len(at)
    row = max(_ROW, -(-number // MAX_SIDE))
    # OpenCV samples images, so the positions are laid out as one, of rows that are short enough for it.
    positions = np.zeros((-(-number // row) * row, 2), np.float32)
    scale = np.array((width / size[1], height / size[0]), np.float32)
    np.subtract((at + np.float32(0.5)) * scale, np.float32(0.5), out=positions[:number])
    sampled: NDArray[np.float32] = remap(maps, positions.reshape(-1, row, 2)).reshape(-1, channels)
    return sampled[:number]


@lru_cache(maxsize=32)  # a frame needs up to six, and streams of other sizes have others
def _grid(height: int, width: int) -> Flow:
    columns, rows = np.meshgrid(np.arange(width, dtype=np.float32), np.arange(height, dtype=np.float32))
    return np.stack((columns, rows), axis=-1)
