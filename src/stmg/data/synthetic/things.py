"""Things placed in the street: what to draw, in which order, up to which distance and with which shadow."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import sin

import numpy as np

from stmg.data.synthetic.canvas import Canvas
from stmg.data.synthetic.plan import RANGE, Plan
from stmg.data.synthetic.roadside import draw_tree
from stmg.data.synthetic.textures import Array, Texture
from stmg.data.synthetic.vehicles import CarModel, draw_car


@dataclass(frozen=True)
class Thing:
    """Something to draw: its band across the street, what orders it within the band, and where it ends along z."""

    band: int
    z: float
    end: float
    reach: float  # metres up to which it is drawn
    draw: Callable[[Canvas], None]
    shadow: Array | None = None  # (n, 3) on the ground


def place_upright(
    plan: Plan, foot: Array, reach: float, draw: Callable[[Canvas], None], radius: float, height: float
) -> Thing:
    """Something slender, such as a lamp or a person."""
    x, _, z = foot.tolist()
    return Thing(plan.band(x), z, z, reach, draw, plan.shadow(x, z, radius, radius, 0, height))


def place_tree(plan: Plan, foliage: list[Texture], rng: np.random.Generator, root: Array) -> Thing:
    """Tree of random size, with a crown of two clumps of leaves."""
    trunk, wide, tall = rng.uniform(2.6, 3.6), rng.uniform(1.5, 2.6), rng.uniform(1.3, 2.6)
    crown = []
    for shift in (-0.3 * wide, 0.3 * wide):
        middle = np.array([shift, trunk + tall * rng.uniform(0.75, 0.9), -shift])
        crown.append((foliage[rng.integers(4)], middle, rng.uniform(0.85, 1.0) * np.array([wide, tall])))
    draw = partial(draw_tree, root, trunk + tall * 0.5, crown)
    x, _, z = root.tolist()
    shadow = plan.shadow(x, z, wide * 0.8, wide * 0.8, trunk * 0.8, trunk + tall)
    return Thing(plan.band(x), z, z, RANGE, draw, shadow)


def place_car(plan: Plan, model: CarModel, x: float, z: float, heading: float) -> Thing:
    """Car centered at (x, z)."""
    half_x, half_z = model.width / 2, model.length / 2
    if abs(sin(heading)) > 0.5:
        half_x, half_z = half_z, half_x
    shadow = plan.shadow(x, z, half_x + 0.08, half_z, 0, model.height * 0.8)
    draw = partial(draw_car, model, x, z, heading)
    return Thing(plan.band(x), z - half_z, z + half_z, 150, draw, shadow)
