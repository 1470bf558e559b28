"""Accuracy: agreement of labels with the truth, with the base network, and with the frame before."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
import torch
from numpy.typing import NDArray

from stmg.errors import DataError, explain_missing
from stmg.streaming.flow import Flow, warp
from stmg.streaming.motion import View, make_view, measure_change
from stmg.video.frames import Frame, Image
from stmg.video.labels import IGNORE, Labels

with explain_missing("torchmetrics", why="measuring accuracy needs torchmetrics", extra="evaluate"):
    from torchmetrics.classification import MulticlassConfusionMatrix

BOUNDARY = 0.005  # width of the boundary band as a share of the frame's diagonal: 3 pixels at 360x480
MAX_RESIDUAL = 0.3  # difference left after warping, up to which a correspondence is certain


class ConfusionMatrix:
    """Counts of true against predicted classes over a stream. Pixels whose true class is out of range are ignored."""

    def __init__(self, num_classes: int) -> None:
        self.num_classes = num_classes
        self._metric = MulticlassConfusionMatrix(num_classes, ignore_index=-1, validate_args=False)

    @property
    def counts(self) -> NDArray[np.int64]:
        """(C, C): rows are the truth, columns the labels."""
        counts: NDArray[np.int64] = self._metric.confmat.numpy()
        return counts

    def add(self, labels: Labels, truth: Labels) -> None:
        if labels.shape != truth.shape:
            raise DataError(f"labels are {labels.shape}, the truth is {truth.shape}")
        if labels.max(initial=0) >= self.num_classes:
            highest = labels.max()
            raise DataError(f"the network predicts class {highest}, the data has {self.num_classes} classes from 0")
        known = np.where(truth < self.num_classes, truth.astype(np.int64), -1)
        self._metric.update(torch.from_numpy(labels.astype(np.int64)), torch.from_numpy(known))

    def iou(self) -> NDArray[np.float64]:
        """IoU of each class, (C,). NaN for a class that neither occurs nor is predicted."""
        hits = np.diag(self.counts).astype(np.float64)
        return _ratio(hits, self.counts.sum(0) + self.counts.sum(1) - hits)

    def mean_iou(self) -> float:
        """Over the classes that occur in the truth."""
        present = self.counts.sum(1) > 0
        return float(np.nanmean(self.iou()[present])) if present.any() else float("nan")

    def agreement(self) -> float:
        """Share of the pixels with equal labels."""
        return float(np.trace(self.counts) / max(1, self.counts.sum()))


class BoundaryIou:
    """IoU of each class within a few pixels of its outline, where thin and small objects count as much as large."""

    def __init__(self, num_classes: int) -> None:
        self.both = np.zeros(num_classes, np.int64)
        self.either = np.zeros(num_classes, np.int64)
        self.seen = np.zeros(num_classes, bool)

    def add(self, labels: Labels, truth: Labels) -> None:
        reach = max(1, round(BOUNDARY * float(np.hypot(*truth.shape))))
        known = truth < len(self.both)
        truth = np.where(known, truth, labels)  # the edge of an unlabeled area is no boundary
        for index in range(len(self.both)):
            predicted, true = (
                _outline(np.equal(each, index).astype(np.uint8), reach) & known for each in (labels, truth)
            )
            self.both[index] += np.count_nonzero(predicted & true)
            self.either[index] += np.count_nonzero(predicted | true)
            self.seen[index] |= bool(true.any())

    def mean(self) -> float:
        """Over the classes that occur in the truth."""
        return float(_ratio(self.both[self.seen], self.either[self.seen]).mean()) if self.seen.any() else float("nan")


class Consistency:
    """Compares the labels of a frame with those of the frame before, warped onto it: 1 if nothing flickers.

    The flow is Farnebäck's. Measuring with the flow that streams warp labels by would measure that flow itself.
    Pixels that the flow does not explain (come into view, or blurred) do not count.
    """

    def __init__(self, num_classes: int) -> None:
        self.counts = ConfusionMatrix(num_classes)
        self._before: Labels | None = None

    def add(self, labels: Labels, correspondence: Correspondence | None) -> None:
        """Add the next frame's labels. correspondence: with the frame before; None if it does not follow from that."""
        if correspondence is not None and self._before is not None and self._before.shape == labels.shape:
            warped = warp(self._before, correspondence.flow, nearest=True)
            known = labels < self.counts.num_classes  # true labels are measured too, and have pixels without a class
            self.counts.add(np.where(known, labels, 0), np.where(correspondence.certain & known, warped, IGNORE))
        self._before = labels

    def forget(self) -> None:
        """Say that the next frame does not follow from the last one."""
        self._before = None

    def mean_iou(self) -> float:
        return self.counts.mean_iou()


class Correspondence:
    """Flow from each pixel of a frame to the frame before, and a mask of where it is certain."""

    def __init__(self, before: Image, now: Image) -> None:
        old, new = make_view(Frame(before)), make_view(Frame(now))
        self.flow = _farneback(old, new)
        residual = measure_change(old, new, self.flow)
        self.certain = cv2.resize(residual, now.shape[1::-1], interpolation=cv2.INTER_LINEAR) < MAX_RESIDUAL


def _farneback(before: View, now: View) -> Flow:
    pixels: Any = cv2.calcOpticalFlowFarneback(now.gray, before.gray, None, 0.5, 4, 15, 3, 5, 1.1, 0)
    height, width = now.gray.shape
    flow: Flow = (pixels / np.array([width, height], np.float32)).astype(np.float32)
    return flow


def _outline(mask: NDArray[np.uint8], reach: int) -> NDArray[np.bool_]:
    """Pixels of a mask within `reach` of its edge. The frame's edge counts as an edge."""
    kernel = np.ones((2 * reach + 1, 2 * reach + 1), np.uint8)
    inner = cv2.erode(mask, kernel, borderType=cv2.BORDER_CONSTANT, borderValue=0)
    outline: NDArray[np.bool_] = (mask > 0) & (inner == 0)
    return outline


def _ratio(part: NDArray[Any], whole: NDArray[Any]) -> NDArray[np.float64]:
    none = np.full(part.shape, np.nan)
    ratio: NDArray[np.float64] = np.divide(part.astype(np.float64), whole, out=none, where=whole > 0)
    return ratio
