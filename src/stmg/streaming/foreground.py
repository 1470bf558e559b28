"""Foreground: the soft result of a network of one channel beside its labels, read from logits and warped."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stmg.streaming.flow import Flow, Map, warp
from stmg.streaming.runtime import Runtime
from stmg.video.labels import Labels


class Segmentation(NamedTuple):
    """What a frame shows."""

    labels: Labels
    """(H, W)."""
    probability: Map | None = None
    """Of the foreground, (H, W); None where the network has several classes or gives labels."""

    def copy(self) -> Segmentation:
        return Segmentation(self.labels.copy(), None if self.probability is None else self.probability.copy())


def read_segmentation(runtime: Runtime, logits: object, size: tuple[int, int]) -> Segmentation:
    """What a computed frame shows; the labels of one channel are its probability, thresholded."""
    probability = runtime.probability(logits, size)
    if probability is None:
        return Segmentation(runtime.labels(logits, size))
    return threshold_probability(probability, runtime.threshold)


def warp_segmentation(before: Segmentation, flow: Flow | None, threshold: float) -> Segmentation:
    """What an earlier frame shows, warped onto this one: labels by the nearest pixel, a probability bilinearly."""
    if before.probability is None:
        return Segmentation(warp(before.labels, flow, nearest=True))
    return threshold_probability(warp(before.probability, flow), threshold)


def threshold_probability(probability: Map, threshold: float) -> Segmentation:
    """A probability and its labels: 1 above the threshold, 0 elsewhere."""
    return Segmentation((probability > threshold).view(np.uint8), probability)
