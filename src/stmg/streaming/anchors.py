"""Anchors: frames the network has computed, and what they show carried onto other frames."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import cv2
import numpy as np
from numpy.typing import NDArray

from stmg.streaming.correction import (
    Corrector,
    CorrectorReference,
    correct,
    halve_image,
    make_reference,
    warp_corrector_input,
)
from stmg.streaming.flow import Flow, Map
from stmg.streaming.runtime import Runtime
from stmg.streaming.segmentation import Segmentation, read_segmentation, warp_segmentation
from stmg.video.frames import Frame, Image
from stmg.video.labels import Labels

MAX_LOGIT_GAP = 10.0  # the most by which a logit is below that of the best class, so that another side can overrule it

Quads = NDArray[np.uint8]
"""(h, w, 4): for each pixel the labels of the 2x2 pixels that begin there, upper row first."""


@dataclass(frozen=True, eq=False)
class Anchor:
    """A frame the network has computed."""

    segmentation: Segmentation
    logits: NDArray[np.float32] | None = None
    """Class logits at the network's own resolution, (h, w, C). None if only labels are available or nothing blends."""
    small: Image | None = None
    """The frame at half size, to measure how well it explains another one; None without blending."""
    threshold: float = 0.5
    reference: CorrectorReference | None = None
    """Input that a corrector takes from this anchor; None without a corrector."""

    @property
    def labels(self) -> Labels:
        """(H, W)."""
        return self.segmentation.labels

    @property
    def probability(self) -> Map | None:
        """Foreground probability, (H, W)."""
        return self.segmentation.probability

    @cached_property
    def quads(self) -> Quads:
        """Its labels in blocks of 2x2 pixels. Warping whole blocks needs a quarter of the positions and look-ups."""
        return make_quads(self.labels)


def compute_anchor(runtime: Runtime, frame: Frame, corrector: Corrector | None = None) -> Anchor:
    """Run the whole network on a frame, and keep what blending and a corrector need."""
    return make_anchor(runtime, runtime.full(runtime.prepare(frame.image)).logits, frame, corrector)


def make_anchor(
    runtime: Runtime, logits: object, frame: Frame, corrector: Corrector | None, *, for_blending: bool = True
) -> Anchor:
    """Make an anchor from the network's logits.

    for_blending: keep what blending it with another anchor needs.
    """
    segmentation, threshold = read_segmentation(runtime, logits, frame.size), runtime.threshold
    if corrector is None and not for_blending:
        return Anchor(segmentation, threshold=threshold)
    array = runtime.logits_array(logits) if segmentation.probability is None else None
    if array is not None:
        array = np.maximum(array, array.max(2, keepdims=True) - MAX_LOGIT_GAP)
    small, reference = halve_image(frame.image), None
    if corrector is not None:
        reference = make_reference(small, segmentation, array, corrector.num_classes)
    return Anchor(segmentation, array, small, threshold, reference)


def carry_segmentation(anchor: Anchor, flow: Flow | None) -> Segmentation:
    """Warp an anchor's segmentation onto a frame."""
    return warp_segmentation(anchor.segmentation, flow, anchor.threshold)


def carry_corrected(corrector: Corrector | None, anchor: Anchor, flow: Flow | None, image: Image) -> Segmentation:
    """Warp an anchor's segmentation onto a frame, then correct it there if there is a corrector."""
    segmentation = carry_segmentation(anchor, flow)
    if corrector is None or anchor.reference is None:
        return segmentation
    return correct(corrector, warp_corrector_input(anchor.reference, flow, image), segmentation, anchor.threshold)[0]


def make_quads(labels: Labels) -> Quads:
    """Pack the 2x2 labels that begin at each pixel (h, w). The right and lower borders are repeated."""
    padded = cv2.copyMakeBorder(labels, 0, 1, 0, 1, cv2.BORDER_REPLICATE)
    corners = padded[:-1, :-1], padded[:-1, 1:], padded[1:, :-1], padded[1:, 1:]
    quads: Quads = cv2.merge(corners)
    return quads
