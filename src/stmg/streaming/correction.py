"""Correction: a small network corrects carried labels where motion alone is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import cv2
import numpy as np
from numpy.typing import NDArray

from stmg.errors import ModelError
from stmg.streaming.cost import Cost
from stmg.streaming.flow import Flow, Map, find_positions, remap, warp
from stmg.streaming.segmentation import Segmentation, threshold_probability
from stmg.video.frames import Image, resize_image
from stmg.video.labels import IGNORE, find_best

GRID, VIEW = 8, 2  # pixels of the frame per cell of the logits, and per pixel of what the corrector sees
MIN_MASK = 0.1  # below it labels stay as they were warped, which are sharper
MIN_SIDE = 16  # of a frame that is corrected
MIN_PROBABILITY = 1e-4  # so that its logarithm is finite


class Corrector(Protocol):
    """A network that corrects warped labels; see `stmg.networks.corrector`."""

    @property
    def num_classes(self) -> int:
        """Classes of its logits, at least 2: one channel counts as background and foreground."""

    @property
    def between(self) -> bool:
        """True if it also corrects frames between two computed ones, as in offline mode."""

    def correct(self, image: Image, before: Image, logits: NDArray[np.float32]) -> tuple[NDArray[np.float32], Map]:
        """Logits (h, w, C) and mask (h, w) of a frame.

        image, before: the frame, and a computed one warped onto it, at half size.
        logits: logits of the computed frame, also warped.
        """

    def cost(self, size: tuple[int, int]) -> Cost:
        """The cost of one frame of (H, W)."""


class CorrectorReference(NamedTuple):
    """A computed frame, as a corrector needs it to correct others."""

    image: Image
    """Image at half size."""
    logits: NDArray[np.float32]
    """Logits at an eighth of the size, (h, w, C)."""


def make_reference(
    small: Image, segmentation: Segmentation, logits: NDArray[np.float32] | None, classes: int
) -> CorrectorReference | None:
    """A computed frame for a corrector; None if it is too small to be corrected.

    Labels without logits count as certain.

    small: the frame at half size.
    logits: class logits at the network's own resolution, (h, w, C).
    """
    height, width = segmentation.labels.shape
    if min(height, width) < MIN_SIDE:
        return None
    size = max(1, height // GRID), max(1, width // GRID)
    if segmentation.probability is not None:
        cells = cv2.resize(segmentation.probability, size[::-1], interpolation=cv2.INTER_AREA)
        probabilities = np.stack((1 - cells, cells), axis=2)
    elif logits is None:
        ids = cv2.resize(segmentation.labels, size[::-1], interpolation=cv2.INTER_NEAREST)
        # Where there is no label every class is as likely.
        sure = np.vstack((np.eye(classes, dtype=np.float32), np.full((1, classes), 1 / classes, np.float32)))
        probabilities = sure[np.minimum(ids, classes)]
    else:
        probabilities = _softmax(logits)
        if probabilities.shape[:2] != size:
            probabilities = _resample(probabilities, size)
    if probabilities.shape[2] != classes:
        raise ModelError(f"the corrector is for {classes} classes, the network has {probabilities.shape[2]}")
    return CorrectorReference(small, np.log(np.maximum(probabilities, MIN_PROBABILITY)))


def _softmax(logits: NDArray[np.float32]) -> NDArray[np.float32]:
    exponentials = np.exp(logits - logits.max(2, keepdims=True))
    probabilities: NDArray[np.float32] = exponentials / exponentials.sum(2, keepdims=True)
    return probabilities


def _resample(maps: NDArray[np.float32], size: tuple[int, int]) -> NDArray[np.float32]:
    scale = np.array((maps.shape[1] / size[1], maps.shape[0] / size[0]), np.float32)
    half = np.float32(0.5)
    return remap(maps, (find_positions(None, size) + half) * scale - half)


def add_cost(cost: Cost | None, corrector: Corrector | None, size: tuple[int, int]) -> Cost | None:
    """Cost of a frame of (H, W) on which the corrector also ran; None if it cannot be counted."""
    return cost if cost is None or corrector is None else cost.plus(corrector.cost(size))


def halve_image(image: Image) -> Image:
    """Halve a frame's height and width, rounded up, for correctors and for matching it with another frame."""
    return resize_image(image, view_size(image.shape[:2]))


def view_size(size: tuple[int, ...]) -> tuple[int, int]:
    """(h, w) of a frame of (H, W) at half its height and width, rounded up."""
    height, width = size
    return -(-height // VIEW), -(-width // VIEW)


class CorrectorInput(NamedTuple):
    """Input of a corrector for one frame."""

    image: Image
    """The frame, at half size."""
    before: Image
    """Computed frames warped onto it, at half size."""
    logits: NDArray[np.float32]
    """(h, w, C) of the computed frames, warped too."""


def warp_corrector_input(reference: CorrectorReference, flow: Flow | None, image: Image) -> CorrectorInput:
    """Build the corrector's input for a frame that is warped from one computed frame."""
    return CorrectorInput(halve_image(image), warp(reference.image, flow), warp(reference.logits, flow))


def blend_corrector_input(
    sides: Sequence[tuple[CorrectorReference, Flow | None]], share: Map, small: Image
) -> CorrectorInput:
    """Build the corrector's input for a frame that is blended from two computed frames.

    sides: the two frames, and the flow to each.
    share: weight of the first frame, in [0, 1], (h, w). It has the size of the images.
    small: the frame at half size.
    """
    (one, first), (two, second) = sides
    ours, theirs = warp(one.image, first), warp(two.image, second)
    before = (theirs + share[:, :, None] * (ours.astype(np.float32) - theirs)).astype(np.uint8)
    cells = cv2.resize(share, one.logits.shape[1::-1], interpolation=cv2.INTER_AREA)[:, :, None]
    mixed = cells * np.exp(warp(one.logits, first)) + (1 - cells) * np.exp(warp(two.logits, second))
    return CorrectorInput(small, before, np.log(np.maximum(mixed, MIN_PROBABILITY)))


def correct(
    corrector: Corrector, view: CorrectorInput, segmentation: Segmentation, threshold: float
) -> tuple[Segmentation, NDArray[np.float32]]:
    """Correct `segmentation`. Return the corrected segmentation and the corrector's logits (h, w, C)."""
    logits, mask = corrector.correct(*view)
    height, width = segmentation.labels.shape
    full = cv2.resize(mask, (width, height), interpolation=cv2.INTER_LINEAR)
    if segmentation.probability is not None:
        corrected = 1 / (1 + np.exp(logits[:, :, 0] - logits[:, :, 1]))
        new = cv2.resize(corrected, (width, height), interpolation=cv2.INTER_LINEAR)
        probability = segmentation.probability + full * (new - segmentation.probability)
        return threshold_probability(probability, threshold, mask), logits
    labels = segmentation.labels
    keeps = cv2.compare(full, MIN_MASK, cv2.CMP_LE) | cv2.compare(labels, IGNORE, cv2.CMP_EQ)
    if not keeps.all():
        labels = cv2.copyTo(labels, keeps, find_best(logits.transpose(2, 0, 1), (height, width)))
    return Segmentation(labels, None, mask), logits
