"""What stands beside the road: trees, hedges, fences, signs, lamps and traffic lights."""

from collections.abc import Sequence

import cv2
import numpy as np

from stmg.data.synthetic.canvas import UP, Canvas, X, Z
from stmg.data.synthetic.classes import POLE, SIGN, TREE
from stmg.data.synthetic.textures import TEXELS, Array, Texture, masonry, noise, rgba, tinted

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


def make_fence(rng: np.random.Generator, kind: int) -> Texture:
    """Boards (0), railings (1) or a wall with pillars (2)."""
    tones = ((142, 108, 78), ((38, 44, 46), (210, 210, 205), (40, 82, 58))[rng.integers(3)], (178, 132, 108))
    tone = np.array(tones[kind]) * rng.uniform(0.75, 1.05)
    wall = masonry(rng, STRIP_LENGTH, STRIP_HEIGHT, tone, brick=kind == 2)
    row, column = np.arange(len(wall))[:, None], np.arange(wall.shape[1])
    if kind == 0:
        board = rng.normal(1, 0.1, len(column) // 5 + 1)[column // 5] * np.where(column % 5 == 0, 0.6, 1)
        return rgba(wall * board[:, None], row > np.where(column % 5 == 2, 0, 2))
    if kind == 1:
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


def make_sign(rng: np.random.Generator, kind: int) -> Texture:
    """Traffic sign: 0 limit, 1 warning, 2 blue order, 3 place board, 4 back of a sign."""
    red, white, blue, black = (200, 24, 32, 255), (245, 245, 240, 255), (28, 76, 170, 255), (20, 20, 20, 255)
    gray = (120, 124, 128, 255)
    pixels = np.full((64, 64, 4), (*gray[:3], 0), np.uint8)
    if kind == 1:
        for inset, color in ((0, red), (10, white)):
            left, right, bottom = 2 + 1.6 * inset, 62 - 1.6 * inset, 59 - inset
            corners = np.array([[32, 3 + 2 * inset], [right, bottom], [left, bottom]])
            cv2.fillConvexPoly(pixels, corners.astype(np.int32), color)
        cv2.line(pixels, (32, 28), (32, 44), black, 4)
    elif kind == 3:
        cv2.rectangle(pixels, (0, 0), (63, 63), blue if rng.random() < 0.5 else (20, 96, 60, 255), -1)
        cv2.rectangle(pixels, (3, 3), (60, 60), white, 2)
        for line in (16, 31, 46):
            cv2.line(pixels, (9, line), (int(rng.integers(30, 54)), line), white, 4)
    else:
        cv2.circle(pixels, (32, 32), 30, {0: red, 2: blue}.get(kind, gray), -1)
        if kind == 0:
            cv2.circle(pixels, (32, 32), 22, white, -1)
            limit = str(rng.choice([20, 30, 40, 50]))
            cv2.putText(pixels, limit, (14, 41), cv2.FONT_HERSHEY_SIMPLEX, 0.9, black, 3)
        elif kind == 2:
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
        shown = tinted(color, 1.0 if lamp == lit else 0.25)
        canvas.limbs([(middle, middle, 0.14, 0.14, shown)], SIGN, foot)
