"""The backdrop: sky and skyline, and the ground with its grain, shadows and haze."""

from collections.abc import Sequence
from itertools import pairwise
from math import floor

import cv2
import numpy as np

from stmg.data.synthetic.canvas import UP, Canvas, X, Z, coarseness
from stmg.data.synthetic.textures import SKY, TEXELS, Array, Texture, noise, rgba


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


GROUND_REPEATS = (16, 32)  # metres across and along after which ground textures repeat; they hold two of each


def make_ground(rng: np.random.Generator, slab: int) -> Texture:
    """Grain of the ground as gain times 128: slabs of so many texels or, with 0, asphalt with stains and streaks."""
    shape = (GROUND_REPEATS[1] * TEXELS, GROUND_REPEATS[0] * TEXELS)
    gain = 1 + 0.04 * noise(rng, shape, 1.2) + 0.04 * rng.standard_normal(shape, np.float32)
    if slab:
        row, column = np.arange(shape[0])[:, None], np.arange(shape[1])
        gain += rng.normal(0, 0.05, (shape[0] // slab, shape[1] // slab))[row // slab, column // slab]
        gain[(row % slab == 0) | (column % slab == 0)] -= 0.22
    else:
        gain += 0.04 * cv2.resize(noise(rng, (64, shape[1]), 0.8), shape[::-1])
        gain += 0.03 * rng.standard_normal(shape, np.float32)
    return Texture(np.tile(np.clip(128 * gain, 0, 255).astype(np.uint8), (2, 2)))


def light_ground(
    grains: Sequence[tuple[Texture, int, float]],
    shadows: Sequence[Array],
    shaded: float,
    haze: tuple[float, float],
    canvas: Canvas,
) -> None:
    """Give the flat colors below the horizon their grain (texture, label, height), shadows (n, 3) and haze."""
    _, row, scale = (canvas.matrix @ Z).tolist()
    horizon, (rows, columns) = row / scale, canvas.pixels.shape[:2]
    top = max(0, floor(horizon) + 1)
    if top >= rows:
        return
    below = canvas.pixels[top:]
    labels = below[..., 3].copy()
    depth = canvas.focal * canvas.position[1] / np.maximum(np.arange(top, rows) - horizon, 0.1)
    light = np.full(labels.shape, 128, np.uint8)  # gain times 128
    limits = [*np.searchsorted(-depth, (-90, -60, -40, -27, -18, -12, -8, -5)).tolist(), rows - top]
    for first, last in pairwise(limits):
        for texture, label, level in grains if last > first else ():
            mask = (labels[first:last] == label).view(np.uint8)
            _spread_grain(texture, level, mask, light[first:last], top + first, depth[first:last], canvas)
    unshaded = np.full(labels.shape, 255, np.uint8)
    for outline in (canvas.outline(canvas.project(shadow)) for shadow in shadows):
        if outline is not None:
            cv2.fillConvexPoly(unshaded, outline.corners_from(0, top), 255 * shaded, shift=4)
    clear = np.exp(-depth / haze[1])[:, None]
    veil = np.repeat(np.uint8(255 * clear), columns, axis=1)
    fog = np.repeat(np.uint8(haze[0] * (1 - clear)), 4 * columns, axis=1).reshape(below.shape)
    gain = cv2.multiply(cv2.multiply(light, cv2.blur(unshaded, (5, 5)), scale=1 / 255), veil, scale=1 / 255)
    cv2.add(cv2.multiply(below, cv2.merge((gain,) * 4), scale=1 / 128), fog, dst=below)
    below[..., 3] = labels


def _spread_grain(
    texture: Texture, level: float, mask: Array, light: Array, top: int, depth: Array, canvas: Canvas
) -> None:
    """Fill `mask` of some rows of `light` with a ground texture at height `level`, shrunk to suit their `depth`."""
    left, first, width, height = cv2.boundingRect(mask)
    if not width:
        return
    middle = float(depth[len(depth) // 2])
    across = coarseness(TEXELS, canvas.focal / middle)
    along = coarseness(TEXELS, canvas.focal * canvas.position[1] / middle**2)
    pixels = texture.level(across, along)
    # Sampling beyond the texture is slow, so its repeats are laid where these rows are seen.
    repeat_x, repeat_z = GROUND_REPEATS
    start = (canvas.position[2] + 0.9 * float(depth[-1])) // repeat_z * repeat_z
    x, y, z = canvas.position - (-repeat_x, level, start)
    plane = canvas.matrix @ np.array([[1, 0, -x], [0, 0, -y], [0, 1, -z]])
    to_patch = np.array([[1, 0, -left], [0, 1, -top - first], [0, 0, 1]])
    texel_x, texel_z = 2 * repeat_x / pixels.shape[1], 2 * repeat_z / pixels.shape[0]
    metres = np.array([[texel_x, 0, texel_x / 2], [0, texel_z, texel_z / 2], [0, 0, 1]])
    patch = cv2.warpPerspective(pixels, to_patch @ plane @ metres, (width, height), borderMode=cv2.BORDER_WRAP)
    area = slice(first, first + height), slice(left, left + width)
    cv2.copyTo(patch, mask[area], light[area])
