"""Thumbnails of an evaluation: a strip of the first frames, and masks beside the true change."""

from __future__ import annotations

import cv2
import numpy as np

from stmg.evaluation.results import Picture
from stmg.outputs.timeline import LEVEL_COLORS
from stmg.streaming.result import FrameResult
from stmg.streaming.schedulers import Level
from stmg.video.frames import Image
from stmg.video.labels import IGNORE, Labels
from stmg.video.overlay import draw_mask

STRIP_LENGTH, STRIP_COLUMNS = 24, 8
STRIP_SIZE = (90, 120)
MASK_ROWS = 4
MASK_SPACING = 7  # minimum number of frames between two rows of masks
MASK_SIZE = (180, 240)


class Thumbnails:
    """Collects small pictures while a stream runs."""

    def __init__(self) -> None:
        self._strip: list[Image] = []
        self._masks: list[Image] = []
        self._mask_names: dict[str, None] = {}
        self._num_frames = 0
        self._last_level: Level | None = None

    def add(self, result: FrameResult) -> None:
        """Add the next frame to the strip."""
        self._num_frames += 1
        self._last_level = result.level
        if len(self._strip) < STRIP_LENGTH:
            small = cv2.resize(result.plot(), STRIP_SIZE[::-1], interpolation=cv2.INTER_AREA)
            color = tuple(bytes.fromhex(LEVEL_COLORS[result.level][1:]))
            self._strip.append(cv2.copyMakeBorder(small, 4, 4, 4, 4, cv2.BORDER_CONSTANT, value=color))

    def add_masks(self, result: FrameResult, truth: Labels, before: Labels, mask: str) -> None:
        """Add a frame, its mask, and the pixels where `before`, the warped truth of the frame before, is wrong.

        Call this before `add`. Only a few frames that follow computed ones are taken: after a carried frame the mask
        covers more than one frame, and cannot be compared with the frame before.

        mask: name of the mask in the caption.
        """
        if result.level is Level.KEY or result.changed is None or self._last_level is Level.CARRY:
            return
        if len(self._masks) == MASK_ROWS or self._num_frames < MASK_SPACING * len(self._masks):
            return
        changed = ((truth != before) & (truth != IGNORE) & (before != IGNORE)).astype(np.float32)
        panels = (result.image, draw_mask(result.image, result.changed), draw_mask(result.image, changed))
        self._mask_names[mask] = None
        self._masks.append(np.hstack([cv2.resize(panel, MASK_SIZE[::-1]) for panel in panels]))

    def pictures(self) -> tuple[Picture, ...]:
        """The pictures collected so far."""
        pictures = []
        if self._strip:
            caption = "The first frames: red key, yellow partial, green carried."
            pictures.append(Picture("strip.png", caption, tile(self._strip, STRIP_COLUMNS)))
        if self._masks:
            mask = " or ".join(self._mask_names)
            caption = f"Frame, {mask}, and where the labels of the frame before no longer hold (figures 6 and 12)."
            pictures.append(Picture("masks.png", caption, tile(self._masks, 1)))
        return tuple(pictures)


def tile(images: list[Image], columns: int) -> bytes:
    """Tile images of one size, as a PNG."""
    blank = np.full_like(images[0], 255)
    rows = [images[start : start + columns] for start in range(0, len(images), columns)]
    filled = [row + [blank] * (columns - len(row) if len(rows) > 1 else 0) for row in rows]
    sheet = np.vstack([np.hstack(row) for row in filled])
    done, data = cv2.imencode(".png", sheet[:, :, ::-1])
    assert done
    return bytes(data)
