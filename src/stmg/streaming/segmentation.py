"""Segmentation: what a frame shows, read from a network's output or warped from another frame."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stmg.streaming.flow import Flow, Map, warp
from stmg.streaming.runtime import FirstOutput, Runtime
from stmg.video.labels import IGNORE, Labels


class Segmentation(NamedTuple):
    """Segmentation of one frame."""

    labels: Labels
    """(H, W)."""
    probability: Map | None = None
    """Foreground probability, (H, W). None if the network has several classes or gives labels."""
    correction: Map | None = None
    """The corrector's mask, (h, w) in [0, 1], where the labels are corrected ones or warped from such; else None."""

    def copy(self) -> Segmentation:
        return Segmentation(*(None if array is None else array.copy() for array in self))  # type: ignore[arg-type]


def read_segmentation(runtime: Runtime, logits: object, size: tuple[int, int]) -> Segmentation:
    """Convert the network's output for a frame of (H, W) to a segmentation."""
    known = runtime.copied_from or runtime
    if known.first_output is None:
        shape = tuple(getattr(logits, "shape", ()))
        shape = shape[1:] if len(shape) == 4 else shape
        known.first_output = FirstOutput(shape, size) if len(shape) in (2, 3) else None
    probability = runtime.probability(logits, size)
    if probability is None:
        return Segmentation(runtime.labels(logits, size))
    return threshold_probability(probability, runtime.threshold)


def warp_segmentation(before: Segmentation, flow: Flow | None, threshold: float) -> Segmentation:
    """Warp an earlier frame's segmentation onto this one: labels by the nearest pixel, a probability bilinearly."""
    correction = None if before.correction is None else warp(before.correction, flow)
    if before.probability is None:
        return Segmentation(warp(before.labels, flow, nearest=True), None, correction)
    return threshold_probability(warp(before.probability, flow), threshold, correction)


def threshold_probability(probability: Map, threshold: float, correction: Map | None = None) -> Segmentation:
    """Threshold a probability to labels: 1 above the threshold, 0 elsewhere."""
    return Segmentation((probability > threshold).view(np.uint8), probability, correction)


def keep_segmentation(before: Segmentation, size: tuple[int, int]) -> Segmentation:
    """Keep the segmentation of a frame of another scene, unwarped. At another size, all labels are IGNORE."""
    if before.labels.shape == size:
        return before.copy()
    nothing = None if before.probability is None else np.zeros(size, np.float32)
    return Segmentation(np.full(size, IGNORE, np.uint8), nothing)
