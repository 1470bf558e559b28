"""Labels from class logits: upsampled to the frame and decided, in one sweep over the classes."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from stmg.errors import ModelError
from stmg.runtimes.arrays import resize_plane
from stmg.video.labels import MAX_CLASSES, Labels


def argmax_labels(logits: NDArray[Any], size: tuple[int, int]) -> Labels:
    """The best class (H, W) of logits (C, h, w), upsampled to `size`; of one class alone, where it is above 0.

    A running maximum holds one upsampled class at a time; that is faster here than upsampling all and an argmax.
    """
    if len(logits) > MAX_CLASSES:
        raise ModelError(f"labels are bytes, so there can be at most {MAX_CLASSES} classes; got {len(logits)}")
    if not np.isfinite(logits.sum(dtype=np.float64)):
        raise ModelError("the network's logits are not finite: its weights or its input are broken")
    if len(logits) == 1:
        logits = np.concatenate((np.zeros_like(logits), logits))
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
