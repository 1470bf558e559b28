"""Anchors: frames the network has computed, and the labels of other frames warped and blended from them."""

from __future__ import annotations

from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from stmg.streaming.flow import Flow, find_outside, find_positions, remap, warp
from stmg.streaming.runtime import Runtime
from stmg.video.frames import Frame, Image, resize_image
from stmg.video.labels import Labels

OUTSIDE = 60  # the error of a pixel whose flow leaves the frame, in levels of 255
TOLERANCE = 8.0  # levels of 255 by which the weight of a side falls to 1 / e
_WEIGHTS = np.exp(-np.arange(256, dtype=np.float32) / TOLERANCE) + 1e-6


class Anchor(NamedTuple):
    """A frame the network has computed."""

    labels: Labels
    """(H, W)."""
    logits: NDArray[np.float32] | None
    """(h, w, C); None where the network gives labels alone."""
    small: Image
    """The frame itself at half its size, to see how well it explains another one."""


class Side(NamedTuple):
    """An anchor as seen from a frame before or after it."""

    anchor: Anchor
    flow: Flow | None
    """From the frame to the anchor."""
    distance: int
    """Frames between them, 1 or more."""


def compute_anchor(runtime: Runtime, frame: Frame) -> Anchor:
    """The whole network on a frame."""
    output = runtime.full(runtime.prepare(frame.image))
    logits = runtime.logits_array(output.logits)
    small = halve(frame.image)
    return Anchor(runtime.labels(output.logits, frame.size), logits, small)


def halve(image: Image) -> Image:
    """An image at half its height and width."""
    height, width = image.shape[:2]
    return resize_image(image, (max(1, height // 2), max(1, width // 2)))


def carry(anchor: Anchor, flow: Flow | None) -> Labels:
    """The labels of an anchor, warped onto a frame."""
    return warp(anchor.labels, flow, nearest=True)


def blend(left: Side, right: Side, small: Image) -> Labels:
    """The labels of a frame between two anchors; `small` is the frame at half its size.

    Where the warped labels agree they are taken. Elsewhere the class probabilities of both sides are averaged, weighted
    by how well the side explains the frame and how near it is.
    """
    size = left.anchor.labels.shape
    where = [find_positions(side.flow, size) for side in (left, right)]
    ours, theirs = (remap(side.anchor.labels, at, nearest=True) for side, at in zip((left, right), where, strict=True))
    rows, columns = np.nonzero(ours != theirs)
    if not len(rows):
        return ours
    total: NDArray[np.float32] | float = 0.0
    weights = []
    for side, at in zip((left, right), where, strict=True):
        error = match_error(side, small)
        weight = _WEIGHTS[error[rows * error.shape[0] // size[0], columns * error.shape[1] // size[1]]] / side.distance
        weights.append(weight)
        if side.anchor.logits is not None:
            total = total + weight[:, None] * _probabilities(side.anchor.logits, at[rows, columns], size)
    if isinstance(total, float):  # labels alone: the side that weighs more
        chosen = np.where(weights[0] >= weights[1], ours[rows, columns], theirs[rows, columns])
    else:
        chosen = total.argmax(1).astype(np.uint8)
    ours[rows, columns] = chosen
    return ours


def match_error(side: Side, small: Image) -> NDArray[np.uint8]:
    """How badly the warped anchor explains each pixel of a frame at half its size, (h, w), in levels of 255."""
    size = small.shape[:2]
    at = find_positions(side.flow, size)
    difference = cv2.absdiff(small, remap(side.anchor.small, at))
    error: NDArray[np.uint8] = cv2.blur(cv2.transform(difference, np.full((1, 3), 1 / 3, np.float32)), (5, 5))
    error[find_outside(side.flow, size) > 0] = OUTSIDE
    return error


def _probabilities(logits: NDArray[np.float32], at: NDArray[np.float32], size: tuple[int, ...]) -> NDArray[np.float32]:
    """Class probabilities (N, C) at N positions (x, y) of a frame of `size`, from its logits (h, w, C)."""
    height, width, channels = logits.shape
    x = np.clip((at[:, 0] + 0.5) * (width / size[1]) - 0.5, 0, width - 1)
    y = np.clip((at[:, 1] + 0.5) * (height / size[0]) - 0.5, 0, height - 1)
    left, top = np.minimum(x.astype(np.intp), max(0, width - 2)), np.minimum(y.astype(np.intp), max(0, height - 2))
    right, bottom = np.minimum(left + 1, width - 1), np.minimum(top + 1, height - 1)
    across, down = (x - left).astype(np.float32)[:, None], (y - top).astype(np.float32)[:, None]
    upper = logits[top, left] * (1 - across) + logits[top, right] * across
    lower = logits[bottom, left] * (1 - across) + logits[bottom, right] * across
    values = upper * (1 - down) + lower * down
    if channels == 1:  # one class against the background
        values = np.concatenate((np.zeros_like(values), values), axis=1)
    values -= values.max(1, keepdims=True)
    np.exp(values, out=values)
    probabilities: NDArray[np.float32] = values / values.sum(1, keepdims=True)
    return probabilities
