"""Overlays: labels and masks drawn on frames."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from stmg.video.frames import Image
from stmg.video.labels import IGNORE

CHANGED = (255, 140, 0)  # orange


def draw_labels(image: Image, labels: NDArray[np.uint8], palette: NDArray[np.uint8], opacity: float = 0.5) -> Image:
    """Blend the image (H, W, 3) with the colors of its labels (H, W). Pixels without a label stay unchanged."""
    # This is ten times as fast as indexing the table, and works for RGB and BGR.
    drawn: Image = cv2.applyColorMap(labels, make_color_table(palette)[:, None])
    if opacity < 1:
        cv2.addWeighted(image, 1 - opacity, drawn, opacity, 0, dst=drawn)
    if labels.max(initial=0) == IGNORE:
        cv2.copyTo(image, cv2.compare(labels, IGNORE, cv2.CMP_EQ), drawn)
    return drawn


def draw_labels_i420(
    image: Image, labels: NDArray[np.uint8], palette: NDArray[np.uint8], opacity: float = 0.5
) -> NDArray[np.uint8]:
    """Like `draw_labels`, as YUV planes (3 H / 2, W) for encoders, at half the cost of drawing in RGB.

    Both sides of the image must be even.
    """
    height, width = labels.shape
    if labels.max(initial=0) == IGNORE:
        return to_i420(draw_labels(image, labels, palette, opacity))
    planes = to_i420(image)
    wide = np.repeat(np.repeat(make_color_table(palette)[None], 2, axis=0), 2, axis=1)  # a 2x2 chroma cell per color
    luma, blue, red = (values.ravel() for values in np.split(to_i420(wide).ravel(), (1024, 1280)))
    luma = luma.reshape(2, 512)[0, ::2]
    flat, area = planes.ravel(), height * width
    coarse = np.ascontiguousarray(labels[::2, ::2])
    parts = (
        (flat[:area].reshape(height, width), labels, luma),
        (flat[area : area * 5 // 4].reshape(height // 2, width // 2), coarse, blue),
        (flat[area * 5 // 4 :].reshape(height // 2, width // 2), coarse, red),
    )
    for plane, ids, table in parts:
        cv2.addWeighted(plane, 1 - opacity, cv2.LUT(ids, np.ascontiguousarray(table)), opacity, 0, dst=plane)
    return planes


def to_i420(image: Image) -> NDArray[np.uint8]:
    """Convert an RGB image with even sides to YUV planes. OpenCV takes a fraction of FFmpeg's time."""
    planes: NDArray[np.uint8] = cv2.cvtColor(image, cv2.COLOR_RGB2YUV_I420)
    return planes


def draw_mask(image: Image, changed: NDArray[np.float32], opacity: float = 0.85) -> Image:
    """Draw the image in gray, and orange where the spatial mask (h, w) shows change."""
    height, width = image.shape[:2]
    full = np.clip(cv2.resize(changed, (width, height), interpolation=cv2.INTER_LINEAR), 0, 1)[:, :, None]
    gray = 0.6 * cv2.cvtColor(image, cv2.COLOR_RGB2GRAY)[:, :, None]
    tinted: Image = (gray + opacity * full * (np.array(CHANGED) - gray)).astype(np.uint8)
    return tinted


def default_palette(num_classes: int) -> NDArray[np.uint8]:
    """(num_classes, 3) distinct colors, with hues in steps of the golden angle."""
    hues = (np.arange(num_classes) * 180 * 0.381966) % 180
    values = np.where(np.arange(num_classes) % 2 == 0, 230, 160)
    hsv = np.stack((hues, np.full(num_classes, 190), values), axis=-1).astype(np.uint8)[None]
    palette: NDArray[np.uint8] = cv2.cvtColor(hsv, cv2.COLOR_HSV2RGB)[0]
    return palette


def make_color_table(palette: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """(256, 3): the color of every label. White for ids without a class, and for pixels without a label."""
    table = np.full((256, 3), 255, np.uint8)
    table[: min(len(palette), IGNORE)] = palette[:IGNORE]
    return table
