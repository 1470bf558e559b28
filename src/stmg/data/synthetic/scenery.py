"""Objects beside the road: houses, trees, hedges, fences, signs, lamps and traffic lights."""

from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import ArrayLike

from stmg.data.synthetic.canvas import UP, Canvas, X, Z
from stmg.data.synthetic.textures import (
    BUILDING,
    POLE,
    SIGN,
    TEXELS,
    TREE,
    Array,
    Texture,
    masonry,
    noise,
    rgba,
    scale_color,
)

DEPTH = 11.0  # metres of a house's end wall


@dataclass(frozen=True)
class Facade:
    """One type of house: street front, end wall (`DEPTH` metres wide, with its gable) and roof; sizes in metres."""

    front: Texture
    flank: Texture
    roof: Texture
    width: float
    height: float
    ridge: float


def make_facade(rng: np.random.Generator, color: Array, shop: bool) -> Facade:
    """House of random size with windows, and a shop or doors at street level."""
    floors, bays, bay = int(rng.integers(2, 6)), int(rng.integers(2, 6)), rng.uniform(2.3, 3.4)
    width, height, ridge = bays * bay, 3.1 * floors + 0.7, float(rng.choice([0.0, 2.4]))
    brick = bool(rng.random() < 0.55)
    front = masonry(rng, width, height, color, brick)
    flank = masonry(rng, DEPTH, height + ridge, color * 0.96, brick)
    tiles = np.array(((96, 62, 52), (78, 80, 88), (120, 84, 66))[rng.integers(3)])
    roof = masonry(rng, width, 5.0, tiles, True)
    trim, frame = rng.uniform(170, 240) * np.array([1, 0.98, 0.93]), rng.choice([60.0, 225.0])
    accent = rng.uniform(30, 190, 3)
    window, tall = rng.uniform(0.38, 0.62) * bay, rng.uniform(1.4, 2.0)

    def paint(wall: Array, left: float, top: float, right: float, bottom: float, colors: ArrayLike) -> None:
        first, last, start, stop = (round(edge * TEXELS) for edge in (top, bottom, left, right))
        wall[first:last, start:stop] = colors

    def pane(wall: Array, left: float, top: float, right: float, bottom: float) -> None:
        glass = rng.choice([35, 60, 95, 150], p=[0.4, 0.3, 0.2, 0.1]) * np.array([0.85, 1.0, 1.1])
        middle, cross = (left + right) / 2, top + (bottom - top) * 0.42
        paint(wall, left - 0.12, top - 0.2, right + 0.12, bottom + 0.12, trim)
        paint(wall, left - 0.05, top - 0.05, right + 0.05, bottom + 0.02, frame)
        paint(wall, left, top, right, bottom, glass)
        paint(wall, left, top, right, cross, glass * 1.35 + 12)
        paint(wall, middle - 0.04, top, middle + 0.04, bottom, frame)
        paint(wall, left, cross, right, cross + 0.06, frame)

    def door(middle: float, top: float) -> None:
        paint(front, middle - 0.65, top + 0.5, middle + 0.65, height, trim)
        paint(front, middle - 0.5, top + 0.65, middle + 0.5, height, accent)
        paint(front, middle - 0.35, top + 0.8, middle + 0.35, top + 1.3, (70, 85, 95))

    def shop_window(middle: float, top: float) -> None:
        paint(front, middle - bay * 0.46, top + 0.75, middle + bay * 0.46, top + 2.7, rng.uniform(30, 110, 3))
        paint(front, middle - bay * 0.4, top + 1.5, middle + bay * 0.1, top + 2.6, rng.uniform(40, 200, 3))
        paint(front, middle - 0.04, top + 0.75, middle + 0.04, top + 2.7, frame)

    for storey in range(floors):
        top, street_level = 0.7 + 3.1 * storey, storey == floors - 1
        for number in range(bays):
            middle = (number + 0.5) * bay
            if street_level and shop:
                shop_window(middle, top)
            elif street_level and number % 2 == 0:
                door(middle, top)
            else:
                pane(front, middle - window / 2, top + 0.5, middle + window / 2, top + 0.5 + tall)
        for middle in (2.2, 5.5, 8.8):
            if rng.random() < 0.6:
                pane(flank, middle - 0.5, ridge + top + 0.5, middle + 0.5, ridge + top + 2.0)
    if shop:
        paint(front, 0.1, height - 3.0, width - 0.1, height - 2.45, accent)
        for start in np.arange(width * 0.2, width * 0.7, 0.45):
            paint(front, start, height - 2.85, start + rng.uniform(0.15, 0.35), height - 2.6, 255 - accent)
    paint(front, 0, 0, width, 0.35, trim * 0.95)
    paint(front, 0, 0.35, width, 0.43, trim * 0.55)
    return Facade(rgba(front), rgba(flank), rgba(roof), width, height, ridge)


def draw_building(
    facade: Facade,
    side: int,
    x: float,
    z: float,
    flanks: int,
    hidden: float,
    shades: tuple[float, float, float],
    canvas: Canvas,
) -> None:
    """House with its front on the plane `x` from `z` on, and `flanks` end walls towards approaching traffic,
    of which a neighbor hides the lowest `hidden` metres."""
    left, front, right = shades
    top = facade.height + facade.ridge
    eaves, bottom = facade.ridge / top, max(1 - hidden / top, facade.ridge / top)
    gable = np.array([[0, eaves], [0.5, 0], [1, eaves], [1, bottom], [0, bottom]])
    for number in range(flanks):
        corner = np.array([x + side * DEPTH * number, top, z])
        canvas.surface(facade.flank, corner, side * DEPTH * X, -top * UP, BUILDING, front, gable)
    along, shade = facade.width * Z, right if side > 0 else left
    if facade.ridge:
        slope = np.array([-side * DEPTH / 2, -facade.ridge, 0])
        eave = np.array([x, facade.height, z])
        canvas.surface(facade.roof, eave - slope, along, slope, BUILDING, shade)
    canvas.surface(facade.front, np.array([x, facade.height, z]), along, -facade.height * UP, BUILDING, shade)


STRIP_LENGTH, STRIP_HEIGHT = 16, 1.5  # metres of the textures of fences and hedges


def make_foliage(rng: np.random.Generator, color: Array) -> Texture:
    """Crown of a tree, made of ragged clumps which are lighter on top."""
    texels = 192
    row, column = np.mgrid[-1 : 1 : texels * 1j, -1 : 1 : texels * 1j]
    ragged = 0.09 * noise(rng, (texels, texels), 1.1)
    crown, leaves = np.zeros((texels, texels), bool), np.full((texels, texels), 0.9)
    for angle in rng.permutation(np.arange(0, 6.2, 0.7)):
        middle, radius = rng.uniform(0.2, 0.5), rng.uniform(0.38, 0.5)
        below, aside = row - middle * np.sin(angle), column - middle * np.cos(angle)
        clump = np.hypot(below, aside) + ragged < 0.95 * radius
        crown |= clump
        leaves[clump] = rng.uniform(0.9, 1.05) - 0.3 * below[clump]
    leaves += 0.14 * noise(rng, (texels, texels), 0.8)
    return rgba(color * leaves[..., None], crown)


def draw_tree(root: Array, trunk: float, crown: Sequence[tuple[Texture, Array, Array]], canvas: Canvas) -> None:
    """Trunk of height `trunk` and clumps of leaves (texture, middle relative to the root, radii), far ones first."""
    canvas.post(root, trunk, (0.18, 0.1), (84, 68, 54), TREE)
    for foliage, middle, (wide, tall) in crown if root[2] - canvas.position[2] < 80 else crown[:1]:
        canvas.surface(foliage, root + middle + (-wide, tall, 0), 2 * wide * X, -2 * tall * UP, TREE)


def make_hedge(rng: np.random.Generator, color: Array) -> Texture:
    """Clipped hedge with an uneven top."""
    rows, columns = round(STRIP_HEIGHT * TEXELS), STRIP_LENGTH * TEXELS
    leaves = 1 + 0.2 * noise(rng, (rows, columns), 0.8)
    top = 3 + 2 * noise(rng, (rows, columns), 1.0)[0]
    return rgba(color * leaves[..., None], np.arange(rows)[:, None] > top)


def make_fence(rng: np.random.Generator, fence_type: int) -> Texture:
    """Boards (0), railings (1) or a wall with pillars (2)."""
    tones = ((142, 108, 78), ((38, 44, 46), (210, 210, 205), (40, 82, 58))[rng.integers(3)], (178, 132, 108))
    tone = np.array(tones[fence_type]) * rng.uniform(0.75, 1.05)
    wall = masonry(rng, STRIP_LENGTH, STRIP_HEIGHT, tone, brick=fence_type == 2)
    row, column = np.arange(len(wall))[:, None], np.arange(wall.shape[1])
    if fence_type == 0:
        board = rng.normal(1, 0.1, len(column) // 5 + 1)[column // 5] * np.where(column % 5 == 0, 0.6, 1)
        return rgba(wall * board[:, None], row > np.where(column % 5 == 2, 0, 2))
    if fence_type == 1:
        rails = (abs(row - 6) < 2) | (abs(row - len(row) + 5) < 2)
        return rgba(wall, (row > 1) & (rails | (column % 8 < 4) | (column % 96 < 6)))
    wall[:4] *= 1.25
    return rgba(wall, (row > 7) | (column % 128 < 16))


def draw_strip(
    texture: Texture, label: int, start: Array, length: float, height: float, shade: float, canvas: Canvas
) -> None:
    """Fence or hedge along the street from `start`."""
    share = length / STRIP_LENGTH
    part = np.array([[0, 0], [share, 0], [share, 1], [0, 1]])
    canvas.surface(texture, start + height * UP, STRIP_LENGTH * Z, -height * UP, label, shade, part)


def make_sign(rng: np.random.Generator, sign_type: int) -> Texture:
    """Traffic sign: 0 limit, 1 warning, 2 blue order, 3 place board, 4 back of a sign."""
    red, white, blue, black = (200, 24, 32, 255), (245, 245, 240, 255), (28, 76, 170, 255), (20, 20, 20, 255)
    gray = (120, 124, 128, 255)
    pixels = np.full((64, 64, 4), (*gray[:3], 0), np.uint8)
    if sign_type == 1:
        for inset, color in ((0, red), (10, white)):
            left, right, bottom = 2 + 1.6 * inset, 62 - 1.6 * inset, 59 - inset
            corners = np.array([[32, 3 + 2 * inset], [right, bottom], [left, bottom]])
            cv2.fillConvexPoly(pixels, corners.astype(np.int32), color)
        cv2.line(pixels, (32, 28), (32, 44), black, 4)
    elif sign_type == 3:
        cv2.rectangle(pixels, (0, 0), (63, 63), blue if rng.random() < 0.5 else (20, 96, 60, 255), -1)
        cv2.rectangle(pixels, (3, 3), (60, 60), white, 2)
        for line in (16, 31, 46):
            cv2.line(pixels, (9, line), (int(rng.integers(30, 54)), line), white, 4)
    else:
        cv2.circle(pixels, (32, 32), 30, {0: red, 2: blue}.get(sign_type, gray), -1)
        if sign_type == 0:
            cv2.circle(pixels, (32, 32), 22, white, -1)
            limit = str(rng.choice([20, 30, 40, 50]))
            cv2.putText(pixels, limit, (14, 41), cv2.FONT_HERSHEY_SIMPLEX, 0.9, black, 3)
        elif sign_type == 2:
            cv2.arrowedLine(pixels, (32, 50), (32, 14), white, 6, tipLength=0.4)
    return Texture(pixels)


def draw_sign(face: Texture, foot: Array, width: float, height: float, canvas: Canvas) -> None:
    """Sign plate of `width` by `height` metres on a pole."""
    canvas.post(foot, 2.1 + height, (0.045, 0.045), (128, 132, 134), POLE)
    corner = foot + np.array([-width / 2, 2.1 + height, -0.08])
    canvas.surface(face, corner, width * X, -height * UP, SIGN)


def draw_lamp(foot: Array, height: float, reach: float, canvas: Canvas) -> None:
    """Lamp post whose arm reaches over the road."""
    neck, top, tip = (0.0, height - 0.3, 0.0), (reach, height, 0.0), (1.3 * reach, height, 0.0)
    gray = (88, 92, 94)
    canvas.post(foot, height - 0.3, (0.09, 0.06), gray, POLE)
    canvas.post(foot, 1.1, (0.13, 0.12), gray, POLE)
    canvas.limbs([(neck, top, 0.05, 0.04, gray), (top, tip, 0.09, 0.07, gray)], POLE, foot)


def draw_traffic_light(foot: Array, lit: int, canvas: Canvas) -> None:
    """Signal head on a pole with lamp `lit` (0 red, 1 amber, 2 green) on."""
    canvas.post(foot, 3.4, (0.07, 0.07), (70, 74, 76), POLE)
    head = np.array([[-0.22, 2.35, -0.1], [0.22, 2.35, -0.1], [0.22, 3.5, -0.1], [-0.22, 3.5, -0.1]])
    canvas.polygon(foot + head, (26, 30, 28), SIGN)
    for lamp, color in enumerate(((255, 60, 40), (255, 190, 40), (60, 240, 120))):
        middle = (0.0, 3.3 - 0.38 * lamp, -0.15)
        shown = scale_color(color, 1.0 if lamp == lit else 0.25)
        canvas.limbs([(middle, middle, 0.14, 0.14, shown)], SIGN, foot)
