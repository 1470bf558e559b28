"""Labels from what a network gives: the best of several classes, or one channel read as foreground and background."""

from __future__ import annotations

from typing import Any, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from stmg.errors import ModelError, SettingsError
from stmg.streaming.flow import Map
from stmg.video.labels import MAX_CLASSES, Labels, find_best, resize_plane

ACTIVATIONS = ("logits", "probability")
THRESHOLD = 0.5
TOLERANCE = 1e-3  # by which probabilities may leave 0 to 1: a graph may resize them with an overshoot


class Stated(NamedTuple):
    """What a user said of a network of one channel; None where nothing."""

    activation: str | None
    threshold: float | None


class Foreground:
    """How the single channel of a network for foreground or matting becomes a probability.

    activation: logits or probability. If None, the values tell: they are probabilities until one is not within 0 and 1.
    threshold: the probability above which a pixel is foreground.
    """

    def __init__(self, activation: str | None = None, threshold: float | None = None) -> None:
        check_foreground(activation, threshold)
        self.threshold = THRESHOLD if threshold is None else float(threshold)
        self.activation = activation
        self.stated = Stated(activation, threshold)

    def check_channels(self, channels: int) -> None:
        """An error if something was stated that has no meaning for a network of so many channels."""
        for argument, value in self.stated._asdict().items():
            if value is not None and channels != 1:
                raise SettingsError(
                    f"{argument}={value!r} is for networks of one channel; this one gives {channels or 'labels'}"
                    f"{' classes' * (channels > 1)}"
                )

    def probability(self, logits: NDArray[Any], size: tuple[int, int]) -> Map | None:
        """The probability (H, W) of the foreground from (1, h, w), upsampled to `size`; None of several classes."""
        if len(logits) != 1:
            return None
        _check_finite(logits)
        plane: Map = np.ascontiguousarray(logits[0], np.float32)
        if self.activation is None and (plane.min() < -TOLERANCE or plane.max() > 1 + TOLERANCE):
            self.activation = "logits"  # whatever comes later: no probability was ever out there
        full = resize_plane(plane, size)
        if self.activation != "logits":
            return np.clip(full, 0, 1)
        probability: Map = 1 / (1 + cv2.exp(np.clip(-full, -80, 80)))  # beyond, the exponential overflows
        return probability

    def labels(self, logits: NDArray[Any], size: tuple[int, int]) -> Labels:
        """The best class (H, W) of logits (C, h, w), upsampled to `size`; of one channel, where it is foreground."""
        probability = self.probability(logits, size)
        return argmax_labels(logits, size) if probability is None else (probability > self.threshold).view(np.uint8)


def check_foreground(activation: str | None, threshold: float | None) -> None:
    """An error if there is no such activation or threshold."""
    if activation not in (None, *ACTIVATIONS):
        raise SettingsError(f"activation is {' or '.join(ACTIVATIONS)}; got {activation!r}")
    if threshold is not None and not (isinstance(threshold, int | float) and 0 < threshold < 1):
        raise SettingsError(f"threshold is a probability between 0 and 1; got {threshold!r}")


def argmax_labels(logits: NDArray[Any], size: tuple[int, int]) -> Labels:
    """The best class (H, W) of logits (C, h, w), upsampled to `size`; an error if they are no logits of labels."""
    if len(logits) > MAX_CLASSES:
        raise ModelError(f"labels are bytes, so there can be at most {MAX_CLASSES} classes; got {len(logits)}")
    _check_finite(logits)
    return find_best(logits, size)


def _check_finite(logits: NDArray[Any]) -> None:
    if not np.isfinite(logits.sum(dtype=np.float64)):
        raise ModelError("the network's logits are not finite: its weights or its input are broken")
