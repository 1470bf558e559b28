"""What closes the view: the sky, and the skyline of roofs and trees."""

import cv2
import numpy as np

from stmg.data.synthetic.canvas import UP, Canvas, X
from stmg.data.synthetic.classes import SKY
from stmg.data.synthetic.textures import Array, Texture, noise, rgba


def make_sky(rng: np.random.Generator, zenith: Array, horizon: Array, cover: float) -> Texture:
    """Sky down to just below the horizon; more `cover` means more clouds."""
    rows, columns = 256, 1024
    height = np.linspace(1, -0.07, rows)[:, None]
    colors = horizon + (zenith - horizon) * np.clip(height, 0, 1)[..., None] ** 0.6
    clouds = cv2.resize(noise(rng, (rows, columns // 4), 1.5), (columns, rows))
    opacity = np.clip(0.45 * (clouds + cover - 0.5), 0, 0.85) * np.clip(height * 6, 0, 1)
    white = 236 - 26 * np.clip(clouds, 0, 2)
    return rgba(colors + opacity[..., None] * (white[..., None] - colors))


def draw_sky(sky: Texture, drift: float, canvas: Canvas) -> None:
    """Sky on a plane a kilometre away, moved aside by `drift` metres."""
    corner = canvas.position + np.array([drift - 2500, 1500, 1000])
    canvas.surface(sky, corner, 5000 * X, -1600 * UP, SKY)


def make_skyline(rng: np.random.Generator, color: Array, step: int, rounding: int) -> Texture:
    """Distant roofs, `step` texels wide, or with some `rounding` tree tops."""
    rows, columns = 64, 2048
    heights = np.repeat(rng.uniform(0.1, 0.75, columns // step + 1), step)[:columns]
    heights = np.convolve(heights, np.full(rounding, 1 / rounding), "same")
    speckle = 1 + 0.1 * noise(rng, (rows, columns), 0.6)
    return rgba(color * speckle[..., None], np.arange(rows)[:, None] > rows * heights)


def draw_skyline(skyline: Texture, label: int, height: float, z: float, canvas: Canvas) -> None:
    """Skyline of `height` metres across the end of the street at `z`."""
    canvas.surface(skyline, np.array([-300, height, z]), 600 * X, -height * UP, label)
