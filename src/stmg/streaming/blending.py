"""Blending: the labels of a frame between two anchors, taken from both."""

from __future__ import annotations

import math
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from stmg.streaming.anchors import Anchor, Quads
from stmg.streaming.correction import Corrector, CorrectorInput, blend_corrector_input, correct, halve_image
from stmg.streaming.flow import Flow, Map, find_positions, match_error, match_error_at, remap, sample_maps, warp
from stmg.streaming.segmentation import Segmentation, threshold_probability
from stmg.video.frames import Image
from stmg.video.labels import Labels

TOLERANCE = 8.0  # levels of 255 of matching error by which the weight of a side falls to 1 / e
QUAD = 2  # pixels along the side of a quad
_WEIGHTS = np.exp(-np.arange(256, dtype=np.float32) / TOLERANCE) + 1e-6
_CORNERS = np.array([[[0, 0]], [[1, 0]], [[0, 1]], [[1, 1]]], np.float32)  # of a quad, x then y


class Side(NamedTuple):
    """An anchor as seen from a frame before or after it."""

    anchor: Anchor
    flow: Flow | None
    """Flow from the frame to the anchor."""
    distance: int
    """Frames between them, 1 or more."""


class Weights(NamedTuple):
    """Weights of the anchors before and after a frame, for each of its cells."""

    left: Map
    right: Map

    @property
    def share_of_left(self) -> Map:
        """Share of the left anchor's weight, from 0 to 1."""
        share: Map = self.left / (self.left + self.right)
        return share

    def take(self, cells: NDArray[np.intp]) -> Weights:
        """Select cells by flat index."""
        return Weights(self.left.ravel().take(cells), self.right.ravel().take(cells))


class BlendInput(NamedTuple):
    """A frame between two anchors, with both of them."""

    left: Side
    right: Side
    image: Image

    def weigh(self, small: Image) -> Weights:
        """Weights in each cell (h, w) of `small`, the frame at half its size.

        A side counts the more the better its anchor, warped, matches the frame, and the nearer it is.
        """
        return Weights(*(_weigh(match_error(_small(side), small, side.flow), side) for side in (self.left, self.right)))

    def weigh_at(self, cells: NDArray[np.intp], positions: list[Flow]) -> Weights:
        """Like `weigh`, for the N cells given by flat index. Cheaper where they are few.

        positions: (h, w, 2) in either anchor, of the frame's pixel where each cell begins.
        """
        small = halve_image(self.image)
        return Weights(
            *(
                _weigh(match_error_at(_small(side), small, at / np.float32(QUAD), cells), side)
                for side, at in zip((self.left, self.right), positions, strict=True)
            )
        )

    def corrector_input(self, small: Image, weights: Weights) -> CorrectorInput:
        """Build the corrector's input for this frame. Both anchors must have a reference."""
        one, two = self.left.anchor.reference, self.right.anchor.reference
        assert one is not None
        assert two is not None
        return blend_corrector_input(((one, self.left.flow), (two, self.right.flow)), weights.share_of_left, small)


def _small(side: Side) -> Image:
    assert side.anchor.small is not None
    return side.anchor.small


def _weigh(errors: NDArray[np.uint8], side: Side) -> NDArray[np.float32]:
    """Weights of a side where its anchor matches with these errors."""
    weights: NDArray[np.float32] = _WEIGHTS.take(errors) / math.sqrt(side.distance)
    return weights


def correct_between(corrector: Corrector | None, frame: BlendInput) -> Anchor:
    """Blend a frame, then correct it in one pass that sees both sides. Other frames are blended from it."""
    left, right = frame.left.anchor, frame.right.anchor
    small, threshold = halve_image(frame.image), left.threshold
    if corrector is None or left.reference is None or right.reference is None:
        return Anchor(blend_segmentation(frame), None, small, threshold)
    weights = frame.weigh(small)
    blended = blend_segmentation(frame, weights)
    segmentation, logits = correct(corrector, frame.corrector_input(small, weights), blended, threshold)
    return Anchor(segmentation, logits if segmentation.probability is None else None, small, threshold)


def blend_segmentation(frame: BlendInput, weights: Weights | None = None) -> Segmentation:
    """Segment a frame between two anchors by blending them."""
    left, right = frame.left.anchor, frame.right.anchor
    if left.probability is None or right.probability is None:
        return Segmentation(blend_labels(frame, weights))
    return threshold_probability(blend_probability(frame, weights), left.threshold)


def blend_probability(frame: BlendInput, weights: Weights | None = None) -> Map:
    """Blend the foreground probability (H, W): the weighted mean of both sides everywhere."""
    left, right = frame.left, frame.right
    assert left.anchor.probability is not None
    assert right.anchor.probability is not None
    height, width = left.anchor.probability.shape
    share = (weights or frame.weigh(halve_image(frame.image))).share_of_left
    share = cv2.resize(share, (width, height), interpolation=cv2.INTER_LINEAR)
    one, two = warp(left.anchor.probability, left.flow), warp(right.anchor.probability, right.flow)
    probability: Map = two + share * (one - two)
    return probability


def blend_labels(frame: BlendInput, weights: Weights | None = None) -> Labels:
    """Blend the labels (H, W) of a frame between two anchors.

    Where the warped labels of both sides agree, they are kept. Elsewhere the logits of both are averaged by weight.

    weights: weights of both sides in all cells. If not given, they are computed only where the labels differ.
    """
    sides, size = (frame.left, frame.right), frame.image.shape[:2]
    positions = [find_positions(side.flow, size, stride=QUAD) for side in sides]
    ours, theirs = (remap(side.anchor.quads, at, nearest=True) for side, at in zip(sides, positions, strict=True))
    pixels = np.flatnonzero(ours != theirs)
    if len(pixels):
        ours.ravel()[pixels] = _choose_labels(frame, positions, (ours, theirs), pixels, weights)
    return join_quads(ours, size)


def _choose_labels(
    frame: BlendInput,
    positions: list[Flow],
    warped: tuple[Quads, Quads],
    pixels: NDArray[np.intp],
    weights: Weights | None,
) -> Labels:
    """Choose labels (N,) for the N pixels where the sides disagree, given by flat index in the warped quads.

    positions: (h, w, 2) in either anchor, where each quad begins.
    """
    quads, corners = split_index(pixels)  # each quad is a cell of the frame at half its size
    ours, theirs = frame.weigh_at(quads, positions) if weights is None else weights.take(quads)
    one, two = frame.left.anchor.logits, frame.right.anchor.logits
    if one is None or two is None:  # labels alone: those of the side that weighs more
        return np.where(ours >= theirs, *(each.ravel().take(pixels) for each in warped))
    logits, others = (
        sample_maps(maps, at.reshape(-1, 1, 2).take(quads, 0) + corners, frame.image.shape)[:, 0]
        for maps, at in zip((one, two), positions, strict=True)
    )
    logits += others * (theirs / ours)[:, None]
    best: Labels = logits.argmax(1).astype(np.uint8)
    return best


def join_quads(quads: Quads, size: tuple[int, ...]) -> Labels:
    """Join adjacent quads to labels (H, W). Labels beyond `size` are cut off."""
    height, width = quads.shape[:2]
    labels = np.empty((QUAD * height, QUAD * width), np.uint8)
    pairs = labels.view(np.uint16)  # of pixels beside each other
    pairs[0::2], pairs[1::2] = np.moveaxis(quads.view(np.uint16), 2, 0)
    return labels if labels.shape == tuple(size) else np.ascontiguousarray(labels[: size[0], : size[1]])


def split_index(index: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.float32]]:
    """Flat indices into quads as the quad of each, (N,), and the pixel within it, x then y, (N, 1, 2)."""
    return index >> 2, _CORNERS.take(index & 3, 0)
