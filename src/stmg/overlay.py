"""Overlays: labels and masks drawn on frames."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from stmg.frames import Image

IGNORE = 255
CHANGED = (255, 140, 0)  # orange


def draw_labels(image: Image, labels: NDArray[np.uint8], palette: NDArray[np.uint8], opacity: float = 0.5) -> Image:
    """The image (H, W, 3) with each labelled pixel mixed with its class's colour; ignored pixels stay as they are."""
    colours: Image = _table(palette)[labels]
    mixed: Image = colours if opacity >= 1 else cv2.addWeighted(image, 1 - opacity, colours, opacity, 0)
    ignored = labels == IGNORE
    if ignored.any():
        mixed[ignored] = image[ignored]
    return mixed


def draw_mask(image: Image, changed: NDArray[np.float32], opacity: float = 0.85) -> Image:
    """The image in grey, and orange where the spatial mask (h, w) says that something changed."""
    height, width = image.shape[:2]
    full = np.clip(cv2.resize(changed, (width, height), interpolation=cv2.INTER_LINEAR), 0, 1)[:, :, None]
    grey = 0.6 * cv2.cvtColor(image, cv2.COLOR_RGB2GRAY)[:, :, None]
    tinted: Image = (grey + opacity * full * (np.array(CHANGED) - grey)).astype(np.uint8)
    return tinted


def default_palette(num_classes: int) -> NDArray[np.uint8]:
    """(num_classes, 3) colours that tell neighbours apart: hues stepped by the golden angle."""
    hues = (np.arange(num_classes) * 180 * 0.381966) % 180
    values = np.where(np.arange(num_classes) % 2 == 0, 230, 160)
    hsv = np.stack((hues, np.full(num_classes, 190), values), axis=-1).astype(np.uint8)[None]
    palette: NDArray[np.uint8] = cv2.cvtColor(hsv, cv2.COLOR_HSV2RGB)[0]
    return palette


def _table(palette: NDArray[np.uint8]) -> NDArray[np.uint8]:
    table = np.full((256, 3), 255, np.uint8)
    table[: len(palette)] = palette
    return table
