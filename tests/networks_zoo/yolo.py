"""YOLO networks for segmentation as ONNX files that give one table of boxes, and their post-processing by the book."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

import graphs
from networks_zoo.row import SIZE, Answer, Image, Network, Row

HEIGHT, WIDTH = SIZE
CELLS = HEIGHT * WIDTH // 64 + HEIGHT * WIDTH // 256 + HEIGHT * WIDTH // 1024
CLASSES, PROTOTYPES = 3, 8
NAMES = ("person", "car", "dog")


class Found(NamedTuple):
    """Boxes in corners (N, 4), scores (N,), classes (N,) and weights of prototypes (N, M), best first."""

    boxes: Tensor
    scores: Tensor
    classes: Tensor
    weights: Tensor


def draw_table(rows: int) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]:
    """Boxes by center and sides, scores of classes of which few count, and weights."""
    noise = np.random.default_rng(0)
    centers = noise.uniform((8, 8), (WIDTH - 8, HEIGHT - 8), (rows, 2))
    sides = noise.uniform(12, 40, (rows, 2))
    scores = noise.uniform(0, 0.2, (rows, CLASSES))
    scores[noise.choice(rows, 20, replace=False), noise.integers(0, CLASSES, 20)] = noise.uniform(0.3, 1, 20)
    weights = noise.normal(0, 1, (rows, PROTOTYPES))
    return (np.hstack([centers, sides]).astype(np.float32), scores.astype(np.float32), weights.astype(np.float32))


def suppress(
    boxes: NDArray[np.float32], scores: NDArray[np.float32], weights: NDArray[np.float32], limit: float
) -> Found:
    """Boxes above 0.25 without those that overlap a better one of their class by more than the limit."""
    corners = np.hstack([boxes[:, :2] - boxes[:, 2:] / 2, boxes[:, :2] + boxes[:, 2:] / 2])
    kept: list[int] = []
    for index in np.argsort(-scores.max(1)):
        if scores[index].max() <= 0.25:
            break
        same = [other for other in kept if scores[other].argmax() == scores[index].argmax()]
        if all(overlap(corners[index], corners[other]) <= limit for other in same):
            kept.append(int(index))
    best = scores[kept]
    return Found(*map(torch.from_numpy, (corners[kept], best.max(1), best.argmax(1), weights[kept])))


def overlap(one: NDArray[np.float32], two: NDArray[np.float32]) -> float:
    shared = np.clip(np.minimum(one[2:], two[2:]) - np.maximum(one[:2], two[:2]), 0, None).prod()
    return float(shared / ((one[2:] - one[:2]).prod() + (two[2:] - two[:2]).prod() - shared))


def paint(found: Found, prototypes: Tensor) -> NDArray[np.uint8]:
    """Masks cut to their boxes and upsampled; of each pixel the class of the best one above 0, from 1."""
    count, height, width = prototypes.shape
    masks = (found.weights @ prototypes.view(count, -1)).view(-1, height, width)
    columns, rows = torch.arange(width)[None, None], torch.arange(height)[None, :, None]
    x1, y1, x2, y2 = (found.boxes[:, :, None, None] / 4).unbind(1)
    masks = masks * ((columns >= x1) & (columns < x2) & (rows >= y1) & (rows < y2))
    full = F.interpolate(masks[None], SIZE, mode="bilinear", align_corners=False)[0] > 0
    labels = torch.zeros(SIZE, dtype=torch.uint8)
    for mask, label in reversed(list(zip(full, found.classes, strict=True))):
        labels[mask] = int(label) + 1
    return labels.numpy()


def network(kind: str, folder: Path) -> Network:
    prototypes = np.random.default_rng(1).normal(0, 1, (PROTOTYPES, HEIGHT // 4, WIDTH // 4)).astype(np.float32)
    boxes, scores, weights = draw_table(3 * CELLS if kind == "v5" else CELLS)
    if kind == "v5":
        objects = np.full((len(boxes), 1), 0.9, np.float32)
        found, table = suppress(boxes, scores * objects, weights, 0.45), np.hstack([boxes, objects, scores, weights])
    else:
        found, table = suppress(boxes, scores, weights, 0.7), np.hstack([boxes, scores, weights]).T
    if kind == "nms":
        table = torch.cat([found.boxes, found.scores[:, None], found.classes[:, None], found.weights], 1).numpy()
    labels = paint(found, torch.from_numpy(prototypes))
    graphs.save_yolo(folder / "net.onnx", table.astype(np.float32), prototypes, size=SIZE, names=NAMES)

    def answer(image: Image) -> Answer:
        return Answer(labels)

    return Network({"file": str(folder / "net.onnx")}, answer)


GRAPHS, LOAD = "graph files", 'stmg.load(file, normalize="none")'
UNDERSTOOD = ("4 classes", "labels")

ROWS = (
    Row("YOLOv5-seg, ONNX", GRAPHS, LOAD, UNDERSTOOD, partial(network, "v5")),
    Row("YOLOv8-seg, YOLO11-seg, ONNX", GRAPHS, LOAD, UNDERSTOOD, partial(network, "v8")),
    Row("YOLO-seg with NMS in the graph, ONNX", GRAPHS, LOAD, UNDERSTOOD, partial(network, "nms")),
)
