"""Pasting: objects of one frame laid into another where they could stand, labels alike."""

from __future__ import annotations

import cv2
import numpy as np

from stmg.frames import Image
from stmg.state import Labels

SMALLEST, LARGEST = 0.0003, 0.1  # objects worth pasting, as shares of the frame


def pasted(
    onto: tuple[Image, Labels],
    other: tuple[Image, Labels],
    classes: tuple[int, ...],
    most: int,
    draw: np.random.Generator,
) -> tuple[Image, Labels]:
    """Up to `most` objects of the other frame, each at its height, where its size is right, anywhere across."""
    found = [(number, *box) for number in classes for box in _objects(other[1], number)]
    wanted = draw.integers(0, most + 1)
    if not found or not wanted:
        return onto
    image, labels = onto[0].copy(), onto[1].copy()
    for place in draw.permutation(len(found))[:wanted]:
        number, left, top, width, height = found[place]
        where = int(draw.integers(0, max(1, labels.shape[1] - width + 1)))
        mirrored = draw.random() < 0.5
        source = np.s_[top : top + height, left : left + width]
        target = np.s_[top : top + height, where : where + width]
        shape = (other[1][source] == number).astype(np.uint8)
        picture = other[0][source]
        if mirrored:
            shape, picture = shape[:, ::-1], picture[:, ::-1]
        soft = cv2.GaussianBlur(np.ascontiguousarray(shape) * 255, (3, 3), 0)[..., None].astype(np.float32) / 255
        image[target] = (image[target] * (1 - soft) + picture * soft).round().astype(np.uint8)
        labels[target] = np.where(shape > 0, np.uint8(number), labels[target])
    return image, labels


def _objects(labels: Labels, number: int) -> list[tuple[int, int, int, int]]:
    """Boxes (left, top, width, height) of the objects of a class."""
    _, _, stats, _ = cv2.connectedComponentsWithStats((labels == number).astype(np.uint8), connectivity=8)
    return [(int(x), int(y), int(w), int(h)) for x, y, w, h, area in stats[1:] if _fits(area / labels.size)]


def _fits(share: float) -> bool:
    return SMALLEST <= share <= LARGEST
