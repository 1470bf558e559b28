"""Textures: surfaces that shrink with distance, the noise, walls and colors to paint them with, and their classes."""

from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from stmg.data.camvid import CLASS_NAMES

Array = npt.NDArray[Any]
Color = tuple[float, float, float]

# The id of each class in the labels: those of CamVid.
SKY, BUILDING, POLE, ROAD, SIDEWALK, TREE, SIGN, FENCE, CAR, PEDESTRIAN, BICYCLIST = range(len(CLASS_NAMES))

TEXELS = 32  # per metre of wall, roof, fence, car and ground


class Texture:
    """(h, w[, 4]) uint8 surface with copies halved along each axis on its own, since streets are seen obliquely."""

    def __init__(self, pixels: Array) -> None:
        self.height, self.width = pixels.shape[:2]
        self.has_alpha = pixels.ndim == 3 and int(pixels[..., 3].min()) < 255
        red, green, blue, _ = cv2.mean(pixels)
        self.mean: Color = (red, green, blue)
        self._levels = {(0, 0): pixels}

    def level(self, across: int, down: int) -> Array:
        """Pixels shrunk by 2**across horizontally and 2**down vertically, at most to a single texel."""
        if (across, down) not in self._levels:
            size = (max(1, self.width >> across), max(1, self.height >> down))
            self._levels[across, down] = cv2.resize(self._levels[0, 0], size, interpolation=cv2.INTER_AREA)
        return self._levels[across, down]


def rgba(colors: Array, opaque: Array | None = None) -> Texture:
    """Texture of (h, w, 3) colors, cut out where (h, w) `opaque` is false."""
    pixels = np.full((*colors.shape[:2], 4), 255, np.uint8)
    pixels[..., :3] = np.clip(colors, 0, 255)
    if opaque is not None:
        pixels[..., 3] = np.where(opaque, 255, 0)
    return Texture(pixels)


def masonry(rng: np.random.Generator, width: float, height: float, color: Array, brick: bool) -> Array:
    """(h, w, 3) float32 wall of `width` by `height` metres, of bricks or weathered plaster."""
    rows, columns = round(height * TEXELS), round(width * TEXELS)
    row, column = np.arange(rows)[:, None], np.arange(columns)
    weather = 0.05 * cv2.resize(noise(rng, (rows // 2, columns // 2), 1.3), (columns, rows))
    weather -= 0.12 * (row / rows) ** 6
    if brick:
        course, offset = row // 5, column + row // 5 % 2 * 6
        weather += rng.normal(0, 0.09, (rows // 5 + 1, columns // 12 + 2))[course, offset // 12]
        weather[(row % 5 == 0) | (offset % 12 == 0)] += 0.16
    else:
        weather += 0.03 * rng.standard_normal((rows, columns), np.float32)
    wall: Array = color.astype(np.float32) * (1 + weather[..., None])
    return wall


def noise(rng: np.random.Generator, shape: tuple[int, int], slope: float) -> Array:
    """Periodic (h, w) float32 noise, of mean 0 and std 1; a steeper `slope` makes larger patches."""
    radius = np.hypot(np.fft.fftfreq(shape[0])[:, None], np.fft.rfftfreq(shape[1])).astype(np.float32)
    radius[0, 0] = np.inf
    white = rng.standard_normal((*radius.shape, 2), np.float32).view(np.complex64)[..., 0]
    field: Array = np.fft.irfft2(white * radius**-slope, shape).astype(np.float32)
    field /= field.std()
    return field


def parse_colors(text: str) -> list[Color]:
    """Colors given as rrggbb."""
    return [(float(red), float(green), float(blue)) for red, green, blue in map(bytes.fromhex, text.split())]


def scale_color(color: Color, gain: float) -> Color:
    """A lighter or darker color."""
    red, green, blue = color
    return red * gain, green * gain, blue * gain
