"""Anchors: frames the network has computed, and the labels of other frames warped and blended from them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from stmg.streaming.blocks import SIDE, Blocks, join_blocks, make_blocks, split_index
from stmg.streaming.correction import (
    AnchorEvidence,
    Corrector,
    CorrectorInput,
    correct,
    make_evidence,
    shrink_view,
    view_blended,
    warp_corrected,
)
from stmg.streaming.flow import Flow, Map, find_positions, match_error, match_error_at, remap, sample_maps, warp
from stmg.streaming.foreground import Segmentation, read_segmentation, threshold_probability, warp_segmentation
from stmg.streaming.runtime import Runtime
from stmg.video.frames import Frame, Image
from stmg.video.labels import Labels

TOLERANCE = 8.0  # levels of 255 by which the weight of a side falls to 1 / e
SPAN = 10.0  # the most by which a logit is below that of the best class, so that a side can be overruled
_WEIGHTS = np.exp(-np.arange(256, dtype=np.float32) / TOLERANCE) + 1e-6


@dataclass(frozen=True, eq=False)
class Anchor:
    """A frame the network has computed."""

    labels: Labels
    """(H, W)."""
    logits: NDArray[np.float32] | None
    """Of the classes at the network's own resolution, (h, w, C); None where the network gives labels alone."""
    small: Image
    """The frame itself at half its size, to see how well it explains another one."""
    probability: Map | None = None
    """Of the foreground, (H, W), where the network has one channel; the labels are it, thresholded."""
    threshold: float = 0.5
    evidence: AnchorEvidence | None = None
    """What a corrector needs of it; None without one."""
    mask: Map | None = None
    """The corrector's, of a frame that was corrected rather than computed."""

    @property
    def shown(self) -> Segmentation:
        return Segmentation(self.labels, self.probability)

    @cached_property
    def blocks(self) -> Blocks:
        """Its labels, to warp from."""
        return make_blocks(self.labels)


class Side(NamedTuple):
    """An anchor as seen from a frame before or after it."""

    anchor: Anchor
    flow: Flow | None
    """From the frame to the anchor."""
    distance: int
    """Frames between them, 1 or more."""


class Between(NamedTuple):
    """A frame between two anchors."""

    left: Side
    right: Side
    image: Image

    def weigh(self, small: Image) -> Weights:
        """How well each of the anchors explains each cell (h, w) of the frame at half its size, and how near it is."""
        ours, theirs = (
            _weigh(match_error(side.anchor.small, small, side.flow), side) for side in (self.left, self.right)
        )
        return Weights(ours, theirs)

    def weigh_at(self, cells: NDArray[np.intp], positions: list[Flow]) -> Weights:
        """The same of some cells alone, by their index, (N,): less work where they are few.

        positions: of the frame's pixel where each cell begins in either anchor, (h, w, 2).
        """
        small = shrink_view(self.image)
        ours, theirs = (
            _weigh(match_error_at(side.anchor.small, small, at / np.float32(SIDE), cells), side)
            for side, at in zip((self.left, self.right), positions, strict=True)
        )
        return Weights(ours, theirs)


class Weights(NamedTuple):
    """How much the anchors before and after a frame count in its cells."""

    left: Map
    right: Map

    @property
    def share_of_left(self) -> Map:
        """From 0 to 1."""
        share: Map = self.left / (self.left + self.right)
        return share

    def take(self, cells: NDArray[np.intp]) -> Weights:
        """Of some cells, by their index."""
        return Weights(self.left.ravel().take(cells), self.right.ravel().take(cells))


def _weigh(errors: NDArray[np.uint8], side: Side) -> NDArray[np.float32]:
    """The weights of a side whose anchor explains pixels of a frame as badly as that."""
    weights: NDArray[np.float32] = _WEIGHTS.take(errors) / math.sqrt(side.distance)
    return weights


def compute_anchor(runtime: Runtime, frame: Frame, corrector: Corrector | None = None) -> Anchor:
    """The whole network on a frame, with what a corrector needs of it."""
    output = runtime.full(runtime.prepare(frame.image))
    shown = read_segmentation(runtime, output.logits, frame.size)
    logits, small, evidence = read_logits(runtime, output.logits, shown), shrink_view(frame.image), None
    if corrector is not None:
        evidence = make_evidence(small, shown, logits, corrector.num_classes)
    return Anchor(shown.labels, logits, small, shown.probability, runtime.threshold, evidence)


def read_logits(runtime: Runtime, logits: object, shown: Segmentation) -> NDArray[np.float32] | None:
    """Of the classes of a computed frame, (h, w, C); None where the network gives a foreground or labels alone."""
    array = runtime.logits_array(logits) if shown.probability is None else None
    return None if array is None else np.maximum(array, array.max(2, keepdims=True) - SPAN)


def carry(anchor: Anchor, flow: Flow | None) -> Labels:
    """The labels of an anchor, warped onto a frame."""
    return warp(anchor.labels, flow, nearest=True)


def carry_segmentation(anchor: Anchor, flow: Flow | None) -> Segmentation:
    """What an anchor shows, warped onto a frame."""
    return warp_segmentation(anchor.shown, flow, anchor.threshold)


def carry_corrected(
    corrector: Corrector | None, anchor: Anchor, flow: Flow | None, image: Image
) -> tuple[Segmentation, Map | None]:
    """What an anchor shows, warped onto a frame and corrected there; and the corrector's mask, if there is one."""
    return warp_corrected(corrector, anchor.shown, anchor.evidence, flow, image, anchor.threshold)


def correct_between(corrector: Corrector | None, frame: Between) -> Anchor:
    """A frame between two anchors, blended and corrected in one pass that sees both, to take others from as from an
    anchor."""
    left, right = frame.left.anchor, frame.right.anchor
    small = shrink_view(frame.image)
    if corrector is None or left.evidence is None or right.evidence is None:
        shown = blend_segmentation(frame)
        return Anchor(shown.labels, None, small, shown.probability, left.threshold)
    weights = frame.weigh(small)
    view, blended = view_between(frame, small, weights), blend_segmentation(frame, weights)
    corrected = correct(corrector, view, blended, left.threshold)
    shown = corrected.shown
    logits = corrected.logits if shown.probability is None else None
    return Anchor(shown.labels, logits, small, shown.probability, left.threshold, mask=corrected.mask)


def view_between(frame: Between, small: Image, weights: Weights) -> CorrectorInput:
    """What a corrector is shown of a frame between two anchors; `small` is it at half its size."""
    left, right = frame.left, frame.right
    one, two = left.anchor.evidence, right.anchor.evidence
    assert one is not None
    assert two is not None
    return view_blended(((one, left.flow), (two, right.flow)), weights.share_of_left, small)


def blend_segmentation(frame: Between, weights: Weights | None = None) -> Segmentation:
    """What a frame between two anchors shows."""
    left, right = frame.left.anchor, frame.right.anchor
    if left.probability is None or right.probability is None:
        return Segmentation(blend(frame, weights))
    return threshold_probability(blend_probability(frame, weights), left.threshold)


def blend_probability(frame: Between, weights: Weights | None = None) -> Map:
    """The probability (H, W) of the foreground in a frame between two anchors: the average of both everywhere.

    The sides weigh as in `blend`.
    """
    left, right = frame.left, frame.right
    assert left.anchor.probability is not None
    assert right.anchor.probability is not None
    height, width = left.anchor.probability.shape
    share = (weights or frame.weigh(shrink_view(frame.image))).share_of_left
    share = cv2.resize(share, (width, height), interpolation=cv2.INTER_LINEAR)
    one, two = warp(left.anchor.probability, left.flow), warp(right.anchor.probability, right.flow)
    probability: Map = two + share * (one - two)
    return probability


def blend(frame: Between, weights: Weights | None = None) -> Labels:
    """The labels of a frame between two anchors.

    Where the warped labels agree they are taken. Elsewhere the logits of both sides are averaged, weighted by how well
    the side explains the frame and how near it is.

    weights: of the sides in all cells, where they are known; else they are computed where they count.
    """
    sides, size = (frame.left, frame.right), frame.image.shape[:2]
    positions = [find_positions(side.flow, size, block=SIDE) for side in sides]
    ours, theirs = (remap(side.anchor.blocks, at, nearest=True) for side, at in zip(sides, positions, strict=True))
    pixels = np.flatnonzero(ours != theirs)
    if len(pixels):
        ours.ravel()[pixels] = _choose(frame, positions, (ours, theirs), pixels, weights)
    return join_blocks(ours, size)


def _choose(
    frame: Between,
    positions: list[Flow],
    warped: tuple[Blocks, Blocks],
    pixels: NDArray[np.intp],
    weights: Weights | None,
) -> Labels:
    """The classes (N,) of the N pixels, by their index in the warped blocks, where the sides disagree.

    positions: where each block began in either anchor, (h, w, 2).
    """
    blocks, corners = split_index(pixels)  # each block is a cell of the frame at half its size
    ours, theirs = frame.weigh_at(blocks, positions) if weights is None else weights.take(blocks)
    one, two = frame.left.anchor.logits, frame.right.anchor.logits
    if one is None or two is None:  # labels alone: those of the side that weighs more
        return np.where(ours >= theirs, *(each.ravel().take(pixels) for each in warped))
    logits, others = (
        sample_maps(maps, at.reshape(-1, 1, 2).take(blocks, 0) + corners, frame.image.shape)[:, 0]
        for maps, at in zip((one, two), positions, strict=True)
    )
    logits += others * (theirs / ours)[:, None]
    best: Labels = logits.argmax(1).astype(np.uint8)
    return best
