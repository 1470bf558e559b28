"""YOLO networks for segmentation (v5, v8, 11): a table of boxes and prototypes of masks, read as classes.

As in the networks' own post-processing: boxes with a score, of those that overlap the best, each with a mask that
is a weighted sum of prototypes, cut to its box. A pixel has the class of the best-scored mask on it; 0 is background.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from stmg.errors import ModelError
from stmg.runtimes.engine import GraphOutput
from stmg.video.frames import Image, resize_image
from stmg.video.labels import Labels

MIN_SCORE = 0.25
MAX_OVERLAP = {"v5": 0.45, "v8": 0.7}
"""Highest intersection over union of two boxes of one class. Of boxes that overlap more, only the better is kept."""
MAX_DETECTIONS = 300
MAX_PROTOTYPES = 64
STRIDE = 32  # of the coarsest features: sides of images are multiples of it
PROTOTYPE_STRIDE = 4
GRAY = 114  # around images that have not the shape of the network's input
Floats = NDArray[np.float32]


class Letterbox(NamedTuple):
    """Position of an image in the network's input: whole, at its own aspect ratio, padded with gray."""

    size: tuple[int, int]
    """(H, W) of the input."""
    top: int
    left: int
    height: int
    width: int

    def fill(self, image: Image) -> Image:
        """Make the network's input."""
        resized = resize_image(image, (self.height, self.width))
        if self.size == (self.height, self.width):
            return resized
        out = np.full((*self.size, 3), GRAY, np.uint8)
        out[self.top : self.top + self.height, self.left : self.left + self.width] = resized
        return out


def fit_letterbox(image: tuple[int, int], size: tuple[int, int] | None) -> Letterbox:
    """Fit the letterbox of an image to an input of a fixed size; only the image if the input has any size.

    Its sides lie between cells of the prototypes, so that masks can be cut out of them.
    """
    if size is None:
        height, width = (max(STRIDE, round(side / STRIDE) * STRIDE) for side in image)
        return Letterbox((height, width), 0, 0, height, width)
    scale = min(size[0] / image[0], size[1] / image[1])
    step = PROTOTYPE_STRIDE
    height, width = (
        max(step, min(whole, round(side * scale / step) * step)) for whole, side in zip(size, image, strict=True)
    )
    top, left = ((whole - side) // 2 // step * step for whole, side in zip(size, (height, width), strict=True))
    return Letterbox(size, top, left, height, width)


class Detections(NamedTuple):
    """Detections of a network, best first."""

    boxes: Floats
    """(N, 4): left, top, right, bottom, in pixels of the input."""
    scores: Floats
    """(N,)"""
    classes: NDArray[np.intp]
    """(N,)"""
    weights: Floats
    """(N, M): of the prototypes, whose sum is the logit of a mask."""


class YoloOutputs(NamedTuple):
    """Indices of a YOLO network's outputs in a graph."""

    table: int
    prototypes: int

    def read(self, outputs: Sequence[NDArray[Any]], box: Letterbox, image: tuple[int, int]) -> Labels:
        """Labels (H, W) of an image from the table and the prototypes."""
        table, prototypes = outputs
        prototypes = prototypes[0].astype(np.float32, copy=False)
        if prototypes.shape[-1] < prototypes.shape[0]:  # channels last
            prototypes = np.ascontiguousarray(prototypes.transpose(2, 0, 1))
        found = read_table(table[0].astype(np.float32, copy=False), prototypes.shape, box.size)
        return draw_masks(found, prototypes, box, image)


def find_yolo(outputs: Sequence[GraphOutput]) -> YoloOutputs | None:
    """The table and the prototypes among the outputs of a graph, if it is such a network."""
    for place, output in enumerate(outputs):
        if len(output.shape) != 4 or not output.is_float:
            continue
        sides = [side for side in output.shape[1:] if isinstance(side, int)]
        number = min(sides, default=0)  # prototypes: as many are fewer than their sides
        if not 1 < number <= MAX_PROTOTYPES or number not in (output.shape[1], output.shape[3]):
            continue
        area = sides[0] * sides[1] * sides[2] // number if len(sides) == 3 else None
        for other, table in enumerate(outputs):
            if len(table.shape) == 3 and table.is_float and _is_table(table.shape[1:], number, area):
                return YoloOutputs(other, place)
    return None


def _is_table(sides: tuple[int | str | None, ...], prototypes: int, area: int | None) -> bool:
    """True if sides are those of a table of boxes for prototypes of that area. An area of None is unknown."""
    one, two = (side if isinstance(side, int) and side > 0 else None for side in sides)
    if area is None or one is None or two is None:  # at least the columns are known
        return any(side is not None and side > 4 + prototypes for side in (one, two))
    return (
        (one > 4 + prototypes and two == _count_cells(area))
        or (two > 4 + prototypes and one in (_count_cells(area), 3 * _count_cells(area)))
        or two == 6 + prototypes
    )


def _count_cells(area: int) -> int:
    """The cells that say boxes, of strides 8, 16 and 32, for prototypes of an area at stride 4."""
    return area // 4 + area // 16 + area // 64


def read_table(table: Floats, prototypes: tuple[int, ...], size: tuple[int, int]) -> Detections:
    """Read a table of boxes, (rows, columns) or (columns, rows), for prototypes (M, h, w) and the input's size."""
    number, cells = prototypes[0], _count_cells(prototypes[1] * prototypes[2])
    if len(table) == 3 * cells:
        return _suppress(_to_corners(table[:, :4]), table[:, 5:-number] * table[:, 4:5], table, number, size, "v5")
    if cells in table.shape:
        table = np.ascontiguousarray(table.T) if table.shape[1] == cells else table
        return _suppress(_to_corners(table[:, :4]), table[:, 4:-number], table, number, size, "v8")
    if table.shape[1] == 6 + number:  # overlaps are gone already
        table = table[table[:, 4] > MIN_SCORE]
        table = table[np.argsort(-table[:, 4], kind="stable")]
        return Detections(_in_pixels(table[:, :4], size), table[:, 4], table[:, 5].astype(np.intp), table[:, 6:])
    raise ModelError(
        f"a table of boxes of shape {table.shape} beside prototypes of {prototypes} is none that YOLOv5, v8 or 11 has; "
        "export the network again, with or without NMS"
    )


def _to_corners(boxes: Floats) -> Floats:
    """Boxes as left, top, right, bottom, from center, width and height."""
    half = boxes[:, 2:] / 2
    return np.concatenate([boxes[:, :2] - half, boxes[:, :2] + half], axis=1)


def _in_pixels(boxes: Floats, size: tuple[int, int]) -> Floats:
    """Boxes in pixels; exports for TensorFlow Lite have them as shares of the sides."""
    if len(boxes) and boxes.max() <= 2:
        return boxes * np.array([*size[::-1], *size[::-1]], np.float32)
    return boxes


def _suppress(
    boxes: Floats, scores: Floats, table: Floats, number: int, size: tuple[int, int], kind: str
) -> Detections:
    """The boxes with a score, of those of one class that overlap the best (non-maximum suppression)."""
    best = scores.max(1)
    kept = np.flatnonzero(best > MIN_SCORE)
    kept = kept[np.argsort(-best[kept], kind="stable")]
    boxes, classes = _in_pixels(boxes, size)[kept], scores[kept].argmax(1)
    areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    chosen: list[int] = []
    left = np.arange(len(kept))
    while len(left) and len(chosen) < MAX_DETECTIONS:
        first, left = left[0], left[1:]
        chosen.append(int(first))
        corner = np.maximum(boxes[first, :2], boxes[left, :2]), np.minimum(boxes[first, 2:], boxes[left, 2:])
        shared = np.prod(np.clip(corner[1] - corner[0], 0, None), axis=1)
        overlap = shared / np.maximum(areas[first] + areas[left] - shared, 1e-9)
        left = left[(overlap <= MAX_OVERLAP[kind]) | (classes[left] != classes[first])]
    return Detections(boxes[chosen], best[kept][chosen], classes[chosen], table[kept[chosen], -number:])


def draw_masks(found: Detections, prototypes: Floats, box: Letterbox, image: tuple[int, int]) -> Labels:
    """Labels (H, W) of an image: of each pixel the class of the best mask on it, counted from 1; 0 where none is."""
    number, height, width = prototypes.shape
    top, left = box.top * height // box.size[0], box.left * width // box.size[1]
    bottom, right = top + box.height * height // box.size[0], left + box.width * width // box.size[1]
    masks = (found.weights @ prototypes.reshape(number, -1)).reshape(-1, height, width)
    scale = np.array([width / box.size[1], height / box.size[0]] * 2)
    edges = np.ceil(found.boxes * scale).astype(int).clip(0, [width, height] * 2)
    labels = np.zeros(image, np.uint8)
    for mask, (x1, y1, x2, y2), label in reversed(list(zip(masks, edges, found.classes + 1, strict=True))):
        cut = np.zeros_like(mask)
        cut[y1:y2, x1:x2] = mask[y1:y2, x1:x2]
        full = cv2.resize(cut[top:bottom, left:right], image[::-1], interpolation=cv2.INTER_LINEAR)
        labels[full > 0] = label
    return labels


def read_class_names(metadata: Mapping[str, str]) -> tuple[str, ...]:
    """Names of the classes from what the exporter wrote into the file, after that of the background; or none."""
    try:
        names = ast.literal_eval(metadata.get("names", ""))
    except (ValueError, SyntaxError):
        return ()
    return ("background", *(str(name) for name in names.values())) if isinstance(names, dict) else ()
