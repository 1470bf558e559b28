"""Labels from class scores: enlarged to the frame and decided, in one sweep over the classes."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from stmg.state import Labels

MOST_CLASSES = 255  # labels are bytes, and 255 means no label


def labels_of(scores: NDArray[Any], size: tuple[int, int]) -> Labels:
    """The best class (H, W) of scores (C, h, w), enlarged bilinearly to `size`.

    A running maximum holds one enlarged class at a time; it is faster here than enlarging all and taking the argmax.
    """
    if len(scores) > MOST_CLASSES:
        raise ValueError(f"labels are bytes, so there can be at most {MOST_CLASSES} classes; got {len(scores)}")
    height, width = size
    best = np.full(size, -np.inf, np.float32)
    labels = np.zeros(size, np.uint8)
    number = np.empty(size, np.uint8)
    for index, plane in enumerate(scores):
        plane = np.ascontiguousarray(plane, np.float32)
        if plane.shape != size:
            plane = cv2.resize(plane, (width, height), interpolation=cv2.INTER_LINEAR)
        better = cv2.compare(plane, best, cv2.CMP_GT)
        number.fill(index)
        cv2.copyTo(number, better, labels)
        cv2.max(plane, best, dst=best)
    return labels
