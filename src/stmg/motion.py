"""Motion: fields from OpenCV's DIS flow or from the codec's own vectors, and moving a state along one.

A field is (h, w, 2), float32: where each cell of the newer frame was in the older one, minus where it is now, x then y,
as fractions of the frame's width and height. So one field serves a picture, its features and its labels alike.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

import cv2
import numpy as np
from numpy.typing import NDArray

from stmg.frames import CodecVectors, Frame

Field = NDArray[np.float32]
Map = NDArray[np.float32]

VIEW_WIDTH = 240
MOST_CHANNELS = 64  # that OpenCV moves at once; beyond its limit it drops channels without a word
CELL = 4  # view pixels per cell of a distortion map


@dataclass(frozen=True, slots=True)
class View:
    """What is kept of a frame to find motion and change: small and grey."""

    grey: NDArray[np.uint8]
    """(h, w), at most `VIEW_WIDTH` wide."""
    index: int | None
    """Place of the frame in its source."""
    vectors: CodecVectors | None
    size: tuple[int, int]
    """(H, W) of the frame itself."""


class Motion(NamedTuple):
    """A field and where it came from."""

    field: Field | None
    """None: nothing moves."""
    source: str


class MotionEstimator(Protocol):
    """Finds the field between two views of a stream; keeps nothing between calls."""

    needs_vectors: bool

    def between(self, before: View, now: View) -> Motion: ...


class NoMotion:
    """Everything stays where it was: the paper's setting."""

    needs_vectors = False

    def between(self, before: View, now: View) -> Motion:
        return Motion(None, "none")


class DisMotion:
    """Dense inverse search, OpenCV's fast optical flow, on the small grey view."""

    needs_vectors = False

    def __init__(self) -> None:
        self._thread = threading.local()  # OpenCV's estimator keeps buffers, and streams may run in several threads

    def between(self, before: View, now: View) -> Motion:
        height, width = now.grey.shape
        pixels = self._flow().calc(now.grey, before.grey, None)
        # The search ends at half the view; its own enlargement adds nothing that is worth composing and moving.
        coarse = cv2.resize(pixels, _field_size(now), interpolation=cv2.INTER_AREA)
        return Motion(cv2.multiply(coarse, (1 / width, 1 / height, 0, 0)), "dis")

    def _flow(self) -> Any:
        if not hasattr(self._thread, "flow"):
            self._thread.flow = cv2.DISOpticalFlow.create(cv2.DISOpticalFlow_PRESET_ULTRAFAST)
            # The preset stops at a quarter of the view. One scale more follows edges as well as a view twice as wide;
            # patches a little further apart pay for most of it.
            self._thread.flow.setFinestScale(1)
            self._thread.flow.setPatchStride(5)
        return self._thread.flow


class CodecMotion:
    """The vectors a video was coded with, where they can be trusted; dense inverse search elsewhere.

    A decoder says whether a vector points to the past or the future, not to which frame. Those into the past are taken
    to point into the last I or P frame, and motion is taken as even in between, so they are scaled to the step at hand.
    That is a guess, and an encoder seeks few bits, not true motion; so a field is used only if it explains most of what
    changed: `explains` is the share that standing still leaves unexplained and the field must explain.
    """

    needs_vectors = True

    def __init__(self, coverage: float = 0.6, explains: float = 0.45) -> None:
        self.coverage = coverage
        self.explains = explains
        self._fallback = DisMotion()

    def between(self, before: View, now: View) -> Motion:
        field = self._from_vectors(before, now)
        if field is None or not self._trusted(before, now, field):
            return self._fallback.between(before, now)
        return Motion(field, "codec")

    def _trusted(self, before: View, now: View, field: Field) -> bool:
        moved, still = (float(unexplained(before, now, way).mean()) for way in (field, None))
        return moved <= max((1 - self.explains) * still, 0.02)  # the floor is sensor noise

    def _from_vectors(self, before: View, now: View) -> Field | None:
        vectors = now.vectors
        if vectors is None or vectors.reference is None or now.index is None or before.index is None:
            return None
        distance, step = now.index - vectors.reference, now.index - before.index
        past = vectors.blocks[vectors.blocks["source"] < 0] if len(vectors.blocks) else vectors.blocks
        if distance <= 0 or step <= 0 or len(past) == 0:
            return None
        total, weight = _painted(past, vectors.size)
        if float((weight > 0).mean()) < self.coverage:
            return None
        # Blocks coded without a vector take their neighbours' mean, out to a few blocks.
        for reach in (3, 7, 15):
            near, count = cv2.blur(total, (reach, reach)), cv2.blur(weight, (reach, reach))
            empty = (weight == 0) & (count > 0)
            total[empty], weight[empty] = near[empty], count[empty]
        height, width = vectors.size
        mean = total / np.maximum(weight, 1e-6)[:, :, None] / np.array([width, height], np.float32)
        field: Field = cv2.resize(mean * np.float32(step / distance), _field_size(now), interpolation=cv2.INTER_LINEAR)
        return field


ESTIMATORS: dict[str, type[MotionEstimator]] = {"dis": DisMotion, "codec": CodecMotion, "none": NoMotion}


def estimator_named(name: str) -> MotionEstimator:
    """Build a motion estimator by its name."""
    if name not in ESTIMATORS:
        raise ValueError(f"no motion is called {name!r}; there are {', '.join(ESTIMATORS)}")
    return ESTIMATORS[name]()


def view_of(frame: Frame, width: int = VIEW_WIDTH) -> View:
    """The small grey picture of a frame."""
    height, full = frame.size
    grey = cv2.cvtColor(frame.image, cv2.COLOR_RGB2GRAY)
    if full > width:
        grey = cv2.resize(grey, (width, max(1, round(height * width / full))), interpolation=cv2.INTER_AREA)
    # Patches of the search need some room. Fields count in fractions of the frame, so stretching does no harm.
    if min(grey.shape) < 32:
        grey = cv2.resize(grey, (max(grey.shape[1], 32), max(grey.shape[0], 32)))
    return View(grey, frame.index, frame.vectors, frame.size)


def composed(older: Field | None, newer: Field | None) -> Field | None:
    """The way from the newest frame through the one before it (`newer`) to where `older` leads from there."""
    if older is None or newer is None:
        return newer if older is None else older
    total: Field = newer + move(older, newer)
    return total


def move(values: Any, field: Any, *, nearest: bool = False) -> Any:
    """Move what belongs to the older frame onto the newer one.

    `values` is numpy (h, w) or (h, w, C), or a torch tensor (N, C, h, w), at any resolution; for a tensor, `field` may
    be one too, with a field for each of the N. What comes from outside the frame repeats its border.
    """
    if field is None:
        return values
    if not isinstance(values, np.ndarray):
        return _move_tensor(values, field, nearest)
    height, width = values.shape[:2]
    places = cv2.multiply(field, (width, height, 0, 0))
    if field.shape[:2] != (height, width):
        places = cv2.resize(places, (width, height), interpolation=cv2.INTER_LINEAR)
    cv2.add(places, _grid(height, width), dst=places)
    how = cv2.INTER_NEAREST if nearest else cv2.INTER_LINEAR
    if values.ndim == 2 or values.shape[2] <= MOST_CHANNELS:
        return cv2.remap(values, places, None, how, borderMode=cv2.BORDER_REPLICATE)
    parts = [values[:, :, start : start + MOST_CHANNELS] for start in range(0, values.shape[2], MOST_CHANNELS)]
    moved = [
        cv2.remap(np.ascontiguousarray(part), places, None, how, borderMode=cv2.BORDER_REPLICATE) for part in parts
    ]
    return np.dstack(moved)


def unexplained(before: View, now: View, field: Field | None) -> Map:
    """How much of each cell motion does not explain, in [0, 1], (h / 4, w / 4).

    The difference that is left after moving is held against the local contrast, so that texture and light count alike,
    and a floor of ten grey levels stands for sensor noise.
    """
    then, there = (cv2.resize(view.grey, _field_size(view), interpolation=cv2.INTER_AREA) for view in (before, now))
    left = cv2.absdiff(there, move(then, field))
    contrast = cv2.blur(cv2.absdiff(there, cv2.blur(there, (7, 7))), (7, 7))
    share = np.minimum(left / (2.5 * contrast.astype(np.float32) + 10), 1)
    height, width = map_shape(now)
    cells: Map = cv2.resize(share, (width, height), interpolation=cv2.INTER_AREA)
    return cells


def map_shape(view: View) -> tuple[int, int]:
    """(h, w) of the distortion map of a view."""
    return max(1, view.grey.shape[0] // CELL), max(1, view.grey.shape[1] // CELL)


def _move_tensor(values: Any, field: Any, nearest: bool) -> Any:
    import torch
    from torch.nn import functional

    # Places are kept in single precision whatever the features are: half precision cannot tell neighbours apart.
    number, _, height, width = values.shape
    steps = torch.as_tensor(field, device=values.device).float()
    steps = (steps if steps.dim() == 4 else steps[None]).permute(0, 3, 1, 2)
    steps = functional.interpolate(steps, size=(height, width), mode="bilinear", align_corners=False)
    rows = (torch.arange(height, device=values.device) + 0.5) / height
    columns = (torch.arange(width, device=values.device) + 0.5) / width
    places = torch.stack(torch.meshgrid(columns, rows, indexing="xy")) + steps
    places = (2 * places - 1).permute(0, 2, 3, 1).expand(number, -1, -1, -1)
    mode = "nearest" if nearest else "bilinear"
    moved = functional.grid_sample(values.float(), places, mode=mode, padding_mode="border", align_corners=False)
    return moved.to(values.dtype)


def _field_size(view: View) -> tuple[int, int]:
    """(w, h) of every field between views of this size, so that fields from different sources compose."""
    height, width = view.grey.shape
    return width // 2, height // 2


@lru_cache(maxsize=4)
def _grid(height: int, width: int) -> Field:
    columns, rows = np.meshgrid(np.arange(width, dtype=np.float32), np.arange(height, dtype=np.float32))
    return np.stack((columns, rows), axis=-1)


def _painted(blocks: NDArray[Any], size: tuple[int, int], cell: int = 8) -> tuple[NDArray[np.float32], Map]:
    """Vectors in pixels summed over cells of the coded picture, (rows, columns, 2), and how many each cell got."""
    rows, columns = -(-size[0] // cell), -(-size[1] // cell)
    wide, high = blocks["w"].astype(int), blocks["h"].astype(int)
    top, left = (blocks["dst_y"] - high // 2) // cell, (blocks["dst_x"] - wide // 2) // cell
    scale = np.maximum(blocks["motion_scale"], 1)
    places, chosen = [], []
    for down in range(max(1, int(high.max()) // cell)):
        for right in range(max(1, int(wide.max()) // cell)):
            row, column = top + down, left + right
            reached = (down * cell < high) & (right * cell < wide)
            inside = reached & (row >= 0) & (row < rows) & (column >= 0) & (column < columns)
            places.append((row * columns + column)[inside])
            chosen.append(np.flatnonzero(inside))
    place, block = np.concatenate(places), np.concatenate(chosen)
    x, y = ((blocks[name] / scale)[block] for name in ("motion_x", "motion_y"))
    sums = [np.bincount(place, weights, minlength=rows * columns) for weights in (x, y, None)]
    planes = np.stack(sums, axis=-1).reshape(rows, columns, 3).astype(np.float32)
    return np.ascontiguousarray(planes[:, :, :2]), np.ascontiguousarray(planes[:, :, 2])
