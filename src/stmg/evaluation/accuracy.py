"""Accuracy: how far labels agree with the truth, or with the whole network."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stmg.state import Labels


class ConfusionMatrix:
    """Counts of true against predicted classes over a stream; pixels of truth beyond the classes are ignored."""

    def __init__(self, num_classes: int) -> None:
        self.num_classes = num_classes
        self.counts: NDArray[np.int64] = np.zeros((num_classes, num_classes), np.int64)

    def add(self, labels: Labels, truth: Labels) -> None:
        if labels.shape != truth.shape:
            raise ValueError(f"labels are {labels.shape}, the truth {truth.shape}")
        known = truth < self.num_classes
        pairs = truth[known].astype(np.int64) * self.num_classes + np.minimum(labels[known], self.num_classes - 1)
        self.counts += np.bincount(pairs, minlength=self.num_classes**2).reshape(self.counts.shape)

    def iou(self) -> NDArray[np.float64]:
        """Per class; not a number for a class that neither occurs nor is predicted."""
        hits = np.diag(self.counts).astype(np.float64)
        union = self.counts.sum(0) + self.counts.sum(1) - hits
        iou: NDArray[np.float64] = np.divide(hits, union, out=np.full(self.num_classes, np.nan), where=union > 0)
        return iou

    def mean_iou(self) -> float:
        """Over the classes that occur in the truth."""
        present = self.counts.sum(1) > 0
        return float(np.nanmean(self.iou()[present])) if present.any() else float("nan")
