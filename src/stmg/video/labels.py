"""Labels: the class of each pixel, as bytes."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

Labels = NDArray[np.uint8]
"""(H, W) class ids."""
IGNORE = 255
"""No label."""
MAX_CLASSES = 255


def resize_labels(labels: Labels, size: tuple[int, int]) -> Labels:
    """Labels at another size (H, W), each pixel that of the nearest."""
    if labels.shape == size:
        return labels
    out: Labels = cv2.resize(labels, size[::-1], interpolation=cv2.INTER_NEAREST_EXACT)
    return out
