"""Labels: the class of each pixel, as uint8."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

Labels = NDArray[np.uint8]
"""(H, W) class ids."""
IGNORE = 255
"""Pixels without a label."""
MAX_CLASSES = 255
"""Maximum number of classes of a network."""
MAX_DATASET_CLASSES = 254
"""Maximum number of classes of a dataset. Training uses one more id, for frames without labels."""


def resize_labels(labels: Labels, size: tuple[int, int]) -> Labels:
    """Resize labels to (H, W) by nearest neighbor."""
    if labels.shape == size:
        return labels
    out: Labels = cv2.resize(labels, size[::-1], interpolation=cv2.INTER_NEAREST_EXACT)
    return out


def resize_plane(plane: NDArray[np.float32], size: tuple[int, ...]) -> NDArray[np.float32]:
    """Resize a plane (h, w) linearly."""
    if plane.shape == size:
        return plane
    out: NDArray[np.float32] = cv2.resize(plane, size[::-1], interpolation=cv2.INTER_LINEAR)
    return out


def find_best(logits: NDArray[Any], size: tuple[int, int]) -> Labels:
    """The argmax (H, W) of logits (C, h, w), upsampled to `size`.

    Keeps a running maximum over one upsampled class at a time, which is faster than upsampling all classes first.
    """
    best = np.full(size, -np.inf, np.float32)
    labels = np.zeros(size, np.uint8)
    number = np.empty(size, np.uint8)
    for index, plane in enumerate(logits):
        plane = resize_plane(np.ascontiguousarray(plane, np.float32), size)
        better = cv2.compare(plane, best, cv2.CMP_GT)
        number.fill(index)
        cv2.copyTo(number, better, labels)
        cv2.max(plane, best, dst=best)
    return labels
