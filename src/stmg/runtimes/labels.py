"""Labels from class scores: enlarged to the frame and decided, in one sweep over the classes."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from stmg.state import Labels

MOST_CLASSES = 255  # labels are bytes, and 255 means no label


def labels_of(scores: NDArray[Any], size: tuple[int, int]) -> Labels:
    """The best class (H, W) of scores (C, h, w), enlarged to `size`; of one class alone, where it is above 0.

    A running maximum holds one enlarged class at a time; it is faster here than enlarging all and taking the argmax.
    """
    if len(scores) > MOST_CLASSES:
        raise ValueError(f"labels are bytes, so there can be at most {MOST_CLASSES} classes; got {len(scores)}")
    if not np.isfinite(scores.sum(dtype=np.float64)):
        raise ValueError("the network's logits are not finite: its weights or its input are broken")
    height, width = size
    if len(scores) == 1:
        scores = np.concatenate((np.zeros_like(scores), scores))
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
