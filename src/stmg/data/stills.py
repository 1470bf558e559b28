"""Clips from stills: the camera and some objects are moved, and the labels are exact on every frame."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from stmg.data.augment import BORDER, ClipTransform, Matrix
from stmg.errors import require
from stmg.video.frames import Image
from stmg.video.labels import IGNORE, Labels

MIN_OBJECT, MAX_OBJECT = 0.0005, 0.1  # sizes of moved objects, as shares of the frame
FILL_SCALE = 4  # holes are filled at a fraction of the size, as the background of an object is a guess anyway


@dataclass(frozen=True)
class SimulatedMotion:
    """Motion of the camera and of objects in clips made from stills, per frame, as fractions of the frame."""

    zoom: float = 0.03
    pan: float = 0.02
    roll: float = 0.3
    """In degrees."""
    tilt: float = 0.02
    """Perspective: how much one edge of the frame shrinks."""
    object_speed: float = 0.03
    """Maximum speed of objects that move on their own."""
    max_objects: int = 3
    max_gap: int = 4
    """Maximum step of a clip in frames. Each step samples from 1 to this."""

    def __post_init__(self) -> None:
        require(0 <= self.max_objects <= 1000, "motion.max_objects is from 0 to 1000", self.max_objects)
        require(self.max_gap >= 1, "motion.max_gap is at least 1", self.max_gap)


@dataclass(frozen=True)
class Cutout:
    """An object cut out of a still."""

    opaque: NDArray[np.uint8]
    """(H, W): 255 inside the object."""
    velocity: tuple[float, float]
    """Pixels per frame in x and y."""
    growth: float
    """Relative change of size per frame."""
    foot: tuple[float, float]
    """Middle of the lower edge, about which the object grows."""

    def at(self, time: float) -> Matrix:
        """Transform of the object's pixels after some frames."""
        scale = float(np.exp(self.growth * time))
        (x, y), (right, down) = self.foot, self.velocity
        return np.array(
            [[scale, 0, x * (1 - scale) + right * time], [0, scale, y * (1 - scale) + down * time], [0, 0, 1]]
        )


def clip_from_still(
    image: Image,
    labels: Labels,
    length: int,
    motion: SimulatedMotion,
    movable: tuple[int, ...],
    transform: ClipTransform,
    rng: np.random.Generator,
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Make frames (T, h, w, 3) and labels (T, h, w), seen through `transform`. One frame is the still itself."""
    step = rng.integers(1, motion.max_gap + 1)
    times = step * (np.arange(length) - rng.integers(0, length))
    camera = _Camera(motion, image.shape[:2], rng)
    cutouts = _cut_out(labels, movable, motion, rng)
    background, ground_labels = _remove(image, labels, cutouts)
    frames, truths = [], []
    for time in times:
        view = camera.at(float(time))
        frame, truth = transform.warp(background, view, cv2.INTER_LINEAR, BORDER), transform.labels(ground_labels, view)
        for cutout in cutouts:
            matrix = view @ cutout.at(float(time))
            cover = transform.warp(cutout.opaque, matrix, cv2.INTER_LINEAR, (0,))
            _blend(frame, transform.warp(image, matrix, cv2.INTER_LINEAR, BORDER), cover)
            np.copyto(truth, transform.labels(labels, matrix), where=cover > 127)
        frames.append(transform.recolor(frame))
        truths.append(truth)
    return np.stack(frames), np.stack(truths)


class _Camera:
    """Smooth camera motion: constant zoom, pan, roll and tilt about a point of the frame."""

    def __init__(self, motion: SimulatedMotion, size: tuple[int, ...], rng: np.random.Generator) -> None:
        height, width = size[:2]
        self.size = np.array([width, height], np.float64)
        self.about = self.size * rng.uniform(0.35, 0.65, 2)
        fixed = rng.random() < 0.1
        strength = 0.0 if fixed else rng.random()
        self.zoom, self.roll = (
            strength * rng.uniform(-0.3, 1) * motion.zoom,
            strength * rng.uniform(-1, 1) * motion.roll,
        )
        self.pan = strength * rng.uniform(-1, 1, 2) * motion.pan * (1, 0.4)
        self.tilt = strength * rng.uniform(-1, 1, 2) * motion.tilt

    def at(self, time: float) -> Matrix:
        scale, angle = np.exp(self.zoom * time), np.deg2rad(self.roll * time)
        turn = scale * np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        matrix = np.eye(3)
        matrix[:2, :2] = turn
        matrix[:2, 2] = self.about - turn @ self.about + self.pan * time * self.size
        matrix[2, :2] = self.tilt * time / self.size
        matrix[2, 2] = 1 - float(matrix[2, :2] @ self.about)
        return matrix


def _cut_out(
    labels: Labels, movable: tuple[int, ...], motion: SimulatedMotion, rng: np.random.Generator
) -> list[Cutout]:
    cutouts = []
    for class_id in movable:
        _, parts, stats, _ = cv2.connectedComponentsWithStats((labels == class_id).astype(np.uint8), connectivity=8)
        for part, (left, top, width, height, area) in enumerate(stats):
            if part == 0 or not MIN_OBJECT <= area / labels.size <= MAX_OBJECT:
                continue
            speed = motion.object_speed * rng.uniform(0.1, 1) * rng.choice((-1, 1)) * labels.shape[1]
            velocity = (speed, 0.1 * speed * rng.uniform(-1, 1))
            foot = (left + width / 2, float(top + height))
            opaque = np.where(parts == part, 255, 0).astype(np.uint8)
            cutouts.append(Cutout(opaque, velocity, rng.uniform(-0.02, 0.03), foot))
    if not cutouts:
        return []
    chosen = rng.permutation(len(cutouts))[: rng.integers(0, motion.max_objects + 1)]
    return [cutouts[index] for index in chosen]


def _remove(image: Image, labels: Labels, cutouts: list[Cutout]) -> tuple[Image, Labels]:
    """Remove objects from a still, and fill the holes from their surroundings."""
    if not cutouts:
        return image, labels
    hole = np.maximum.reduce([cutout.opaque for cutout in cutouts])
    wide = cv2.dilate(hole, np.ones((7, 7), np.uint8))
    small = (image.shape[1] // FILL_SCALE, image.shape[0] // FILL_SCALE)
    coarse = cv2.resize(image, small, interpolation=cv2.INTER_AREA)
    coarse_hole = cv2.dilate(cv2.resize(wide, small, interpolation=cv2.INTER_NEAREST), np.ones((3, 3), np.uint8))
    filled = cv2.resize(cv2.inpaint(coarse, coarse_hole, 3, cv2.INPAINT_TELEA), image.shape[1::-1])
    background = np.where(wide[..., None] > 0, filled, image)
    # Give each pixel of the hole the label of the nearest pixel outside it that is not ignored.
    unknown = ((hole > 0) | (labels == IGNORE)).astype(np.uint8)
    if unknown.all():
        return background, labels
    _, nearest = cv2.distanceTransformWithLabels(unknown, cv2.DIST_L2, 5, labelType=cv2.DIST_LABEL_PIXEL)
    label_of = np.zeros(nearest.max() + 1, np.uint8)
    label_of[nearest[unknown == 0]] = labels[unknown == 0]
    return background, np.where(hole > 0, label_of[nearest], labels)


def _blend(frame: Image, over: Image, cover: NDArray[np.uint8]) -> None:
    """Blend a picture over a frame in place, by the opacity `cover`. Only the touched rows and columns are computed."""
    rows, columns = np.flatnonzero(cover.any(1)), np.flatnonzero(cover.any(0))
    if not rows.size:
        return
    box = np.s_[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    weight = cover[box][..., None].astype(np.float32) / 255
    frame[box] = (frame[box] * (1 - weight) + over[box] * weight).round().astype(np.uint8)
