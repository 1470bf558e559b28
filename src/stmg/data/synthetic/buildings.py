"""Houses: how their fronts, end walls and roofs are painted, and how they are drawn."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from stmg.data.synthetic.canvas import UP, Canvas, X, Z
from stmg.data.synthetic.classes import BUILDING
from stmg.data.synthetic.textures import TEXELS, Array, Texture, masonry, rgba

DEPTH = 11.0  # metres of a house's end wall


@dataclass(frozen=True)
class Facade:
    """One kind of house: street front, end wall (`DEPTH` metres wide, with its gable) and roof; sizes in metres."""

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
    """House with its front on the plane `x` from `z` on, and `flanks` end walls towards whoever drives up to it,
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
