"""Augmentation that treats a clip as one: the same crop, scale, flip and colors for all its frames."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from stmg.data.options import Augment
from stmg.video.frames import Image
from stmg.video.labels import IGNORE, Labels

Matrix = NDArray[np.float64]
BORDER = (124, 116, 104)  # the mean of natural images: a network sees zeros there
LUMA = np.array([0.299, 0.587, 0.114])


@dataclass(frozen=True)
class Look:
    """How one clip is seen."""

    matrix: Matrix
    """(3, 3): pixels of a stored frame to pixels of the crop."""
    crop: tuple[int, int]
    table: NDArray[np.uint8]
    """(256,): brightness, contrast and gamma."""
    mix: Matrix
    """(3, 4): saturation and tint."""

    def image(self, image: Image, before: Matrix | None = None) -> Image:
        """A stored frame as it is seen; `before` warps it first."""
        return self.recolor(self.warp(image, before, cv2.INTER_LINEAR, BORDER))

    def labels(self, labels: Labels, before: Matrix | None = None) -> Labels:
        """Its labels; what lies outside the frame is ignored."""
        return self.warp(labels, before, cv2.INTER_NEAREST, (IGNORE,))

    def warp(
        self, values: NDArray[np.uint8], before: Matrix | None, interpolation: int, border: tuple[int, ...]
    ) -> NDArray[np.uint8]:
        """Crop, scale, flip and rotation alone."""
        matrix = self.matrix if before is None else self.matrix @ before
        size = self.crop[::-1]
        out: NDArray[np.uint8]
        if before is None:
            out = cv2.warpAffine(values, matrix[:2], size, flags=interpolation, borderValue=border)
        else:
            out = cv2.warpPerspective(values, matrix, size, flags=interpolation, borderValue=border)
        return out

    def recolor(self, image: Image) -> Image:
        """The change of colors alone."""
        out: Image = cv2.transform(cv2.LUT(image, self.table), self.mix)
        return out


def sample_look(augment: Augment, stored: tuple[int, int], scale: float, rng: np.random.Generator) -> Look:
    """A look for frames of the size `stored`, which are `scale` times smaller at their true size."""
    height, width = stored
    zoom = np.exp(rng.uniform(*np.log(augment.scale))) * scale
    spare = np.array([width * zoom - augment.crop[1], height * zoom - augment.crop[0]])
    shift = rng.uniform(np.minimum(spare, 0), np.maximum(spare, 0))
    flipped = augment.flip and rng.random() < 0.5
    angle = np.deg2rad(rng.uniform(-augment.rotate, augment.rotate))
    turn = np.array([[np.cos(angle), -np.sin(angle), 0], [np.sin(angle), np.cos(angle), 0], [0, 0, 1]])
    if flipped:
        turn = turn @ np.diag([-1.0, 1.0, 1.0])
    center = np.array([width, height]) / 2
    # Pixel centers lie half a pixel in: scaling about them keeps images and labels on top of each other.
    matrix = _shift(center * zoom - shift - 0.5) @ np.diag([zoom, zoom, 1.0]) @ turn @ _shift(0.5 - center)
    levels = np.linspace(0, 1, 256) ** np.exp(rng.uniform(-augment.gamma, augment.gamma))
    levels = (levels - 0.5) * (1 + rng.uniform(-augment.contrast, augment.contrast)) + 0.5
    levels = levels + rng.uniform(-augment.brightness, augment.brightness)
    saturation = 1 + rng.uniform(-augment.saturation, augment.saturation)
    mix = np.eye(3) * saturation + (1 - saturation) * LUMA
    tint = 255 * rng.uniform(-augment.tint, augment.tint, (3, 1))
    table = (255 * levels).round().clip(0, 255).astype(np.uint8)
    return Look(matrix, augment.crop, table, np.hstack([mix, tint]))


def plain_look(stored: tuple[int, int], size: tuple[int, int]) -> Look:
    """The whole frame in another size, its colors as they are."""
    ratio = np.array([size[1] / stored[1], size[0] / stored[0]])
    matrix = _shift(0.5 * ratio - 0.5) @ np.diag([*ratio, 1.0])
    return Look(matrix, size, np.arange(256, dtype=np.uint8), np.eye(3, 4))


def add_noise(image: Image, std: float, rng: np.random.Generator) -> Image:
    """An image with sensor noise, its std in levels of 255."""
    if std <= 0:
        return image
    grain = (rng.standard_normal((image.shape[0] // 2, image.shape[1], 3), np.float32) * std).astype(np.int8)
    grain = np.vstack([grain, grain[::-1], grain[:1]])[: image.shape[0]]  # half is sampled: nobody sees the mirror
    out: Image = cv2.add(image, grain, dtype=cv2.CV_8U)
    return out


def _shift(by: NDArray[np.float64]) -> Matrix:
    return np.array([[1.0, 0.0, by[0]], [0.0, 1.0, by[1]], [0.0, 0.0, 1.0]])
