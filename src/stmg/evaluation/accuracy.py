"""Accuracy: how far labels agree with the truth, with the whole network, and with themselves a frame before."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
import torch
from numpy.typing import NDArray

from stmg.frames import Frame, Image
from stmg.motion import Field, View, move, unexplained, view_of
from stmg.overlay import IGNORE
from stmg.state import Labels

try:
    from torchmetrics.classification import MulticlassConfusionMatrix
except ImportError:
    raise ImportError('measuring accuracy needs torchmetrics: pip install "stmg[evaluate]"') from None

BOUNDARY = 0.005  # how far a boundary reaches, as a share of the frame's diagonal: 3 pixels at 360x480
EXPLAINED = 0.3  # of what is left over by motion, above which a cell is not followed from frame to frame


class ConfusionMatrix:
    """Counts of true against predicted classes over a stream; pixels of truth beyond the classes are ignored."""

    def __init__(self, num_classes: int) -> None:
        self.num_classes = num_classes
        self._metric = MulticlassConfusionMatrix(num_classes, ignore_index=-1, validate_args=False)

    @property
    def counts(self) -> NDArray[np.int64]:
        """(C, C): row the truth, column the labels."""
        counts: NDArray[np.int64] = self._metric.confmat.numpy()
        return counts

    def add(self, labels: Labels, truth: Labels) -> None:
        if labels.shape != truth.shape:
            raise ValueError(f"labels are {labels.shape}, the truth {truth.shape}")
        if labels.max(initial=0) >= self.num_classes:
            raise ValueError(f"the network tells class {labels.max()}, the data has {self.num_classes} classes from 0")
        known = np.where(truth < self.num_classes, truth.astype(np.int64), -1)
        self._metric.update(torch.from_numpy(labels.astype(np.int64)), torch.from_numpy(known))

    def iou(self) -> NDArray[np.float64]:
        """Per class; not a number for a class that neither occurs nor is predicted."""
        hits = np.diag(self.counts).astype(np.float64)
        return _ratio(hits, self.counts.sum(0) + self.counts.sum(1) - hits)

    def mean_iou(self) -> float:
        """Over the classes that occur in the truth."""
        present = self.counts.sum(1) > 0
        return float(np.nanmean(self.iou()[present])) if present.any() else float("nan")

    def agreement(self) -> float:
        """Share of the pixels that are the same."""
        return float(np.trace(self.counts) / max(1, self.counts.sum()))


class BoundaryIou:
    """IoU of each class within a few pixels of its outline, where thin and small things count as much as large ones."""

    def __init__(self, num_classes: int) -> None:
        self.both = np.zeros(num_classes, np.int64)
        self.either = np.zeros(num_classes, np.int64)
        self.seen = np.zeros(num_classes, bool)

    def add(self, labels: Labels, truth: Labels) -> None:
        reach = max(1, round(BOUNDARY * float(np.hypot(*truth.shape))))
        known = truth < len(self.both)
        for number in range(len(self.both)):
            said, true = (_outline(np.equal(each, number).astype(np.uint8), reach) & known for each in (labels, truth))
            self.both[number] += np.count_nonzero(said & true)
            self.either[number] += np.count_nonzero(said | true)
            self.seen[number] |= bool(true.any())

    def mean(self) -> float:
        """Over the classes that occur in the truth."""
        return float(_ratio(self.both[self.seen], self.either[self.seen]).mean()) if self.seen.any() else float("nan")


class Consistency:
    """Labels of a frame against those of the frame before, moved along: 1 where nothing flickers.

    The motion is Farnebäck's at full length, not the one that streams carry labels along, which would judge itself.
    What motion does not explain (it comes into view, or blurs) does not count.
    """

    def __init__(self, num_classes: int) -> None:
        self.counts = ConfusionMatrix(num_classes)
        self._before: Labels | None = None

    def add(self, labels: Labels, followed: Followed | None) -> None:
        """The next frame's labels, and how it follows from the frame before; None if it does not."""
        if followed is not None and self._before is not None and self._before.shape == labels.shape:
            moved = move(self._before, followed.field, nearest=True)
            known = labels < self.counts.num_classes  # the truth may be asked too, and it has pixels without a class
            self.counts.add(np.where(known, labels, 0), np.where(followed.sure & known, moved, IGNORE))
        self._before = labels

    def forget(self) -> None:
        """The next frame does not follow from the last one."""
        self._before = None

    def mean_iou(self) -> float:
        return self.counts.mean_iou()


class Followed:
    """How a frame follows from the one before: the same for all whose labels are compared."""

    def __init__(self, before: Image, now: Image) -> None:
        then, there = view_of(Frame(before)), view_of(Frame(now))
        self.field = _farneback(then, there)
        left = unexplained(then, there, self.field)
        self.sure = cv2.resize(left, now.shape[1::-1], interpolation=cv2.INTER_LINEAR) < EXPLAINED


def _farneback(before: View, now: View) -> Field:
    flow: Any = cv2.calcOpticalFlowFarneback(now.grey, before.grey, None, 0.5, 4, 15, 3, 5, 1.1, 0)
    height, width = now.grey.shape
    field: Field = (flow / np.array([width, height], np.float32)).astype(np.float32)
    return field


def _outline(mask: NDArray[np.uint8], reach: int) -> NDArray[np.bool_]:
    """Pixels of a mask within `reach` of its edge; the frame's edge is one."""
    kernel = np.ones((2 * reach + 1, 2 * reach + 1), np.uint8)
    inner = cv2.erode(mask, kernel, borderType=cv2.BORDER_CONSTANT, borderValue=0)
    outline: NDArray[np.bool_] = (mask > 0) & (inner == 0)
    return outline


def _ratio(part: NDArray[Any], whole: NDArray[Any]) -> NDArray[np.float64]:
    none = np.full(part.shape, np.nan)
    ratio: NDArray[np.float64] = np.divide(part.astype(np.float64), whole, out=none, where=whole > 0)
    return ratio
