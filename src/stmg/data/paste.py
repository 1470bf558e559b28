"""Pasting: objects of one frame laid into another where they could stand, labels alike."""

from __future__ import annotations

import cv2
import numpy as np

from stmg.video.frames import Image
from stmg.video.labels import Labels

SMALLEST, LARGEST = 0.0003, 0.1  # objects worth pasting, as shares of the frame


def paste_objects(
    onto: tuple[Image, Labels],
    other: tuple[Image, Labels],
    classes: tuple[int, ...],
    most: int,
    rng: np.random.Generator,
) -> tuple[Image, Labels]:
    """A frame with up to `most` objects of another: each at its own height, where its size is right, at any x."""
    objects = [(class_id, *box) for class_id in classes for box in _find_objects(other[1], class_id)]
    count = rng.integers(0, most + 1)
    if not objects or not count:
        return onto
    image, labels = onto[0].copy(), onto[1].copy()
    for index in rng.permutation(len(objects))[:count]:
        class_id, left, top, width, height = objects[index]
        x = int(rng.integers(0, max(1, labels.shape[1] - width + 1)))
        flipped = rng.random() < 0.5
        source = np.s_[top : top + height, left : left + width]
        target = np.s_[top : top + height, x : x + width]
        shape = (other[1][source] == class_id).astype(np.uint8)
        picture = other[0][source]
        if flipped:
            shape, picture = shape[:, ::-1], picture[:, ::-1]
        soft = cv2.GaussianBlur(np.ascontiguousarray(shape) * 255, (3, 3), 0)[..., None].astype(np.float32) / 255
        image[target] = (image[target] * (1 - soft) + picture * soft).round().astype(np.uint8)
        labels[target] = np.where(shape > 0, np.uint8(class_id), labels[target])
    return image, labels


def _find_objects(labels: Labels, class_id: int) -> list[tuple[int, int, int, int]]:
    """Boxes (left, top, width, height) of the objects of a class."""
    _, _, stats, _ = cv2.connectedComponentsWithStats((labels == class_id).astype(np.uint8), connectivity=8)
    return [(int(x), int(y), int(w), int(h)) for x, y, w, h, area in stats[1:] if _fits(area / labels.size)]


def _fits(share: float) -> bool:
    return SMALLEST <= share <= LARGEST
