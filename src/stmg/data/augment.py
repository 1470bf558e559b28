"""Augmentation of clips: the same crop, scale, flip and colors for all frames of a clip."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from stmg.errors import require
from stmg.video.frames import Image, check_size
from stmg.video.labels import IGNORE, Labels

Matrix = NDArray[np.float64]
BORDER = (124, 116, 104)  # the mean of natural images, which is zero for a network
LUMA = np.array([0.299, 0.587, 0.114])

MIN_PASTED, MAX_PASTED = 0.0003, 0.1  # sizes of pasted objects, as shares of the frame


@dataclass(frozen=True)
class Augment:
    """How to augment a clip. All its frames are treated alike."""

    crop: tuple[int, int] = (288, 384)
    """(H, W) of the training crops."""
    scale: tuple[float, float] = (0.7, 2.0)
    """Minimum and maximum size of a frame, relative to `data.size`."""
    rotate: float = 0.0
    """Maximum angle in degrees."""
    flip: bool = True
    brightness: float = 0.12
    contrast: float = 0.25
    gamma: float = 0.3
    saturation: float = 0.4
    tint: float = 0.03
    paste: int = 0
    """Maximum number of objects pasted from another frame into a single frame, to show rare classes more often."""
    paste_classes: tuple[str, ...] = (
        "pedestrian",
        "bicyclist",
        "signsymbol",
        "person",
        "rider",
        "bicycle",
        "traffic sign",
    )
    """Classes whose objects are pasted, if the data has them."""
    noise: float = 0.0
    """Maximum std of sensor noise, for values from 0 to 1. Each frame has its own noise."""

    def __post_init__(self) -> None:
        require(min(self.crop) >= 32, "augment.crop is at least 32x32", self.crop)
        check_size(self.crop, "augment.crop")
        ordered = 0 < self.scale[0] <= self.scale[1] <= 16
        require(ordered, "augment.scale is two numbers above 0 and at most 16, in order", self.scale)
        require(0 <= self.paste <= 1000, "augment.paste is from 0 to 1000", self.paste)


@dataclass(frozen=True)
class ClipTransform:
    """Crop, scale, flip, rotation and color change of all frames of a clip."""

    matrix: Matrix
    """(3, 3): maps pixels of a stored frame to pixels of the crop."""
    crop: tuple[int, int]
    table: NDArray[np.uint8]
    """(256,): lookup table of brightness, contrast and gamma."""
    mix: Matrix
    """(3, 4): matrix of saturation and tint."""

    def image(self, image: Image, before: Matrix | None = None) -> Image:
        """Transform a stored frame. `before` warps it first."""
        return self.recolor(self.warp(image, before, cv2.INTER_LINEAR, BORDER))

    def labels(self, labels: Labels, before: Matrix | None = None) -> Labels:
        """Transform labels. Pixels from outside the frame are ignored."""
        return self.warp(labels, before, cv2.INTER_NEAREST, (IGNORE,))

    def warp(
        self, values: NDArray[np.uint8], before: Matrix | None, interpolation: int, border: tuple[int, ...]
    ) -> NDArray[np.uint8]:
        """Apply only crop, scale, flip and rotation."""
        matrix = self.matrix if before is None else self.matrix @ before
        size = self.crop[::-1]
        out: NDArray[np.uint8]
        if before is None:
            out = cv2.warpAffine(values, matrix[:2], size, flags=interpolation, borderValue=border)
        else:
            out = cv2.warpPerspective(values, matrix, size, flags=interpolation, borderValue=border)
        return out

    def recolor(self, image: Image) -> Image:
        """Change only the colors."""
        out: Image = cv2.transform(cv2.LUT(image, self.table), self.mix)
        return out


def sample_transform(
    augment: Augment, stored: tuple[int, int], scale: float, rng: np.random.Generator
) -> ClipTransform:
    """Sample a transform for stored frames, whose true size is `scale` times theirs."""
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
    # Pixel centers are half a pixel inside. Scaling about them keeps images and labels aligned.
    matrix = _shift(center * zoom - shift - 0.5) @ np.diag([zoom, zoom, 1.0]) @ turn @ _shift(0.5 - center)
    levels = np.linspace(0, 1, 256) ** np.exp(rng.uniform(-augment.gamma, augment.gamma))
    levels = (levels - 0.5) * (1 + rng.uniform(-augment.contrast, augment.contrast)) + 0.5
    levels = levels + rng.uniform(-augment.brightness, augment.brightness)
    saturation = 1 + rng.uniform(-augment.saturation, augment.saturation)
    mix = np.eye(3) * saturation + (1 - saturation) * LUMA
    tint = 255 * rng.uniform(-augment.tint, augment.tint, (3, 1))
    table = (255 * levels).round().clip(0, 255).astype(np.uint8)
    return ClipTransform(matrix, augment.crop, table, np.hstack([mix, tint]))


def resize_transform(stored: tuple[int, int], size: tuple[int, int]) -> ClipTransform:
    """Resize the whole frame, without changing colors."""
    ratio = np.array([size[1] / stored[1], size[0] / stored[0]])
    matrix = _shift(0.5 * ratio - 0.5) @ np.diag([*ratio, 1.0])
    return ClipTransform(matrix, size, np.arange(256, dtype=np.uint8), np.eye(3, 4))


def add_noise(image: Image, std: float, rng: np.random.Generator) -> Image:
    """Add sensor noise to an image. The std is in levels of 255."""
    if std <= 0:
        return image
    grain = (rng.standard_normal((image.shape[0] // 2, image.shape[1], 3), np.float32) * std).astype(np.int8)
    grain = np.vstack([grain, grain[::-1], grain[:1]])[: image.shape[0]]  # mirror one half, which saves time
    out: Image = cv2.add(image, grain, dtype=cv2.CV_8U)
    return out


def paste_objects(
    onto: tuple[Image, Labels],
    other: tuple[Image, Labels],
    classes: tuple[int, ...],
    most: int,
    rng: np.random.Generator,
) -> tuple[Image, Labels]:
    """Paste up to `most` objects of another frame: at their own height, where their size fits, and at any x."""
    objects = [(class_id, *box) for class_id in classes for box in _find_objects(other[1], class_id)]
    count = rng.integers(0, most + 1)
    if not objects or not count:
        return onto
    image, labels = onto[0].copy(), onto[1].copy()
    for index in rng.permutation(len(objects))[:count]:
        class_id, left, top, width, height = objects[index]
        x = int(rng.integers(0, max(1, labels.shape[1] - width + 1)))
        flipped = rng.random() < 0.5
        source = np.s_[top : top + height, left : left + width]
        target = np.s_[top : top + height, x : x + width]
        shape = (other[1][source] == class_id).astype(np.uint8)
        picture = other[0][source]
        if flipped:
            shape, picture = shape[:, ::-1], picture[:, ::-1]
        soft = cv2.GaussianBlur(np.ascontiguousarray(shape) * 255, (3, 3), 0)[..., None].astype(np.float32) / 255
        image[target] = (image[target] * (1 - soft) + picture * soft).round().astype(np.uint8)
        labels[target] = np.where(shape > 0, np.uint8(class_id), labels[target])
    return image, labels


def _shift(by: NDArray[np.float64]) -> Matrix:
    return np.array([[1.0, 0.0, by[0]], [0.0, 1.0, by[1]], [0.0, 0.0, 1.0]])


def _find_objects(labels: Labels, class_id: int) -> list[tuple[int, int, int, int]]:
    """Boxes (left, top, width, height) of the objects of a class."""
    _, _, stats, _ = cv2.connectedComponentsWithStats((labels == class_id).astype(np.uint8), connectivity=8)
    return [(int(x), int(y), int(w), int(h)) for x, y, w, h, area in stats[1:] if _fits(area / labels.size)]


def _fits(share: float) -> bool:
    return MIN_PASTED <= share <= MAX_PASTED
