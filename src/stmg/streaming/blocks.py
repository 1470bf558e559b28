"""Labels in blocks of 2x2 pixels, which are warped as one: a quarter of the positions and of the look-ups."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from stmg.video.labels import Labels

SIDE = 2  # pixels along a side of a block; the code below counts on it

Blocks = NDArray[np.uint8]
"""(h, w, 4): the labels of a block, its upper two first."""
_CORNERS = np.array([[[0, 0]], [[1, 0]], [[0, 1]], [[1, 1]]], np.float32)  # of a block, x then y


def make_blocks(labels: Labels) -> Blocks:
    """The block that begins at each pixel (h, w); beyond the frame's right and lower border that is repeated."""
    padded = cv2.copyMakeBorder(labels, 0, 1, 0, 1, cv2.BORDER_REPLICATE)
    corners = padded[:-1, :-1], padded[:-1, 1:], padded[1:, :-1], padded[1:, 1:]
    blocks: Blocks = cv2.merge(corners)
    return blocks


def join_blocks(blocks: Blocks, size: tuple[int, ...]) -> Labels:
    """The labels (H, W) of which these are the blocks side by side; those that lie beyond `size` are cut off."""
    height, width = blocks.shape[:2]
    labels = np.empty((SIDE * height, SIDE * width), np.uint8)
    pairs = labels.view(np.uint16)  # of pixels beside each other
    pairs[0::2], pairs[1::2] = np.moveaxis(blocks.view(np.uint16), 2, 0)
    return labels if labels.shape == tuple(size) else np.ascontiguousarray(labels[: size[0], : size[1]])


def split_index(index: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.float32]]:
    """Of N labels in blocks, by their index: which block each is in, (N,), and where in it, x then y, (N, 1, 2)."""
    return index >> 2, _CORNERS.take(index & 3, 0)
