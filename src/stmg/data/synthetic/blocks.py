"""One block of the street, between two side streets: its houses, what stands along its kerbs, and its ground."""

from dataclasses import dataclass
from functools import partial
from math import pi

import numpy as np

from stmg.data.synthetic.buildings import draw_building
from stmg.data.synthetic.canvas import X
from stmg.data.synthetic.classes import FENCE, ROAD, SIDEWALK, TREE
from stmg.data.synthetic.materials import Materials
from stmg.data.synthetic.people import draw_pedestrian, make_person
from stmg.data.synthetic.plan import KERB, RANGE, SIDE_STREET, Plan
from stmg.data.synthetic.roadside import STRIP_LENGTH, draw_lamp, draw_sign, draw_strip, draw_traffic_light
from stmg.data.synthetic.textures import Array, Color, hexadecimal, tinted
from stmg.data.synthetic.things import Thing, place_car, place_tree, place_upright

Flat = tuple[float, tuple[Array, Color, int, float]]  # nearest z, and points, color, label and shade on the ground

WHITE, YELLOW = hexadecimal("cecec8 bea032")


@dataclass(frozen=True)
class Block:
    """What stands and what is painted on the ground between two side streets."""

    things: list[Thing]
    ground: list[Flat]


def make_block(plan: Plan, materials: Materials, number: int) -> Block:
    """The block after side street `number`."""
    start, end = plan.corner(number) + SIDE_STREET / 2, plan.corner(number + 1) - SIDE_STREET / 2
    rng = plan.rng("block", number)
    things = []
    for sign in (-1, 1):
        things += _make_lots(plan, materials, rng, sign, start, end)
        things += _make_kerbside(plan, materials, rng, sign, start, end)
    return Block(things, _make_ground(plan, rng, start, end))


def _make_lots(
    plan: Plan, materials: Materials, rng: np.random.Generator, sign: int, start: float, end: float
) -> list[Thing]:
    """Houses on the building line or behind gardens, and open plots, until one side of the block is full."""
    outside = plan.band(99.0 * sign)
    things: list[Thing] = []
    z, neighbor = start, 0.0
    while z < end - 4:
        facade = materials.facades[rng.integers(len(materials.facades))]
        chance, length = rng.random(), min(facade.width, end - z)
        if chance < plan.house_share and length == facade.width:
            flanks = 3 if z == start else int(facade.height + facade.ridge > neighbor)
            line = sign * plan.line
            house = partial(draw_building, facade, sign, line, z, flanks, neighbor, plan.shades)
            shadow = plan.shadow(sign * (plan.line + 5), z + length / 2, 5, length / 2, 0, facade.height)
            things.append(Thing(outside, z + length, z + length, RANGE, house, shadow))
            z, neighbor = z + length, facade.height
            continue
        if chance < 0.6 + 0.4 * plan.house_share and length == facade.width:
            back = sign * (plan.line + rng.uniform(5, 8))
            house = partial(draw_building, facade, sign, back, z + 0.5, 2, 0.0, plan.shades)
            things.append(Thing(outside, z + length, z + length, RANGE, house))
        for _ in range(rng.integers(0, 3)):
            root = np.array([sign * (plan.line + rng.uniform(1.5, 4)), KERB, z + rng.uniform(1, length - 1)])
            things.append(place_tree(plan, materials.foliage, rng, root))
        hedge = rng.random() < 0.25
        texture = materials.hedge if hedge else materials.fences[rng.integers(3)]
        start_point, height = np.array([sign * plan.line, KERB, z]), rng.uniform(1.0, 1.9)
        label, shade = TREE if hedge else FENCE, plan.shades[1 + sign]
        fenced = min(length, STRIP_LENGTH)
        boundary = partial(draw_strip, texture, label, start_point, fenced, height, shade)
        things.append(Thing(outside, z, z + length, 150, boundary))
        z, neighbor = z + length, 0.0
    return things


def _make_kerbside(
    plan: Plan, materials: Materials, rng: np.random.Generator, sign: int, start: float, end: float
) -> list[Thing]:
    """Trees, lamps, signs, railings, parked cars and people standing along one side of a block."""
    things: list[Thing] = []
    for z in np.arange(start + 3, end - 3, rng.uniform(5, 7)):
        foot = np.array([sign * (plan.kerb + 0.55), KERB, z + rng.uniform(-1, 1)])
        chance = rng.random() - 0.5 * plan.tree_share
        if plan.keeps_clear(sign, z):
            continue
        if chance < 0:
            things.append(place_tree(plan, materials.foliage, rng, foot))
        elif chance < 0.18:
            lamp = partial(draw_lamp, foot, rng.uniform(5, 7.5), -1.4 * sign)
            things.append(place_upright(plan, foot, 120, lamp, 0.07, 6))
        elif chance < 0.36:
            kind = int(rng.integers(len(materials.signs)))
            width, height = (1.5, 1.1) if kind > 3 else (0.8, 0.8)
            sign_post = partial(draw_sign, materials.signs[kind], foot, width, height)
            things.append(place_upright(plan, foot, 110, sign_post, 0.05, 2.8))
        elif chance < 0.46:
            start_point = foot - 0.4 * sign * X
            rails = partial(draw_strip, materials.fences[1], FENCE, start_point, 4.5, 1.05, 1.0)
            things.append(Thing(plan.band(foot[0]), foot[2], foot[2] + 4.5, 110, rails))
    for z in np.arange(start + 8, end - 10, 5.9):
        x, heading = sign * (plan.kerb - 1.05 + rng.uniform(-0.1, 0.1)), rng.choice([0.0, pi])
        if rng.random() < plan.parked_share and not plan.keeps_clear(sign, z):
            things.append(place_car(plan, materials.cars[rng.integers(7)], x, z + rng.uniform(-0.5, 0.5), heading))
    if rng.random() < 0.6:  # parked in the side street
        x = sign * rng.uniform(plan.line + 3, plan.line + 14)
        things.append(place_car(plan, materials.cars[rng.integers(7)], x, start - SIDE_STREET + 1.6, pi / 2))
    foot = np.array([sign * (plan.kerb + 0.4), KERB, start - SIDE_STREET - 1.2])
    if sign == plan.side and not plan.keeps_clear(sign, foot[2]):
        light = partial(draw_traffic_light, foot, int(rng.choice([0, 2])))
        things.append(place_upright(plan, foot, 130, light, 0.07, 3))
    for _ in range(rng.integers(0, 4)):
        feet = np.array([sign * rng.uniform(plan.kerb + 1.6, plan.line - 0.4), KERB, rng.uniform(start, end)])
        stands = partial(draw_pedestrian, make_person(rng), feet, rng.uniform(0, 6), 0.8, 0.15)
        things.append(place_upright(plan, feet, 90, stands, 0.2, 1.6))
    return things


def _make_ground(plan: Plan, rng: np.random.Generator, start: float, end: float) -> list[Flat]:
    """Pavements with their kerbs, patches of asphalt and markings of a block."""
    flats: list[Flat] = []

    def strip(x: float, width: float, near: float, far: float, color: Color, label: int = ROAD, y: float = 0.0) -> None:
        points = np.array([[x, y, near], [x + width, y, near], [x + width, y, far], [x, y, far]])
        flats.append((near, (points, color, label, 1.0)))

    for sign in (-1, 1):
        kerb = sign * plan.kerb
        for x, z in ((300.0 * sign, start), (kerb, end)):  # the kerb's faces to us and to the road
            face = np.array([[kerb, 0, start], [x, 0, z], [x, KERB, z], [kerb, KERB, start]])
            flats.append((start, (face, plan.paving, SIDEWALK, 0.82)))
        strip(kerb, 300.0 * sign, start, end, plan.paving, SIDEWALK, KERB)
        strip(kerb, 0.16 * sign, start, end, tinted(plan.paving, 1.12), SIDEWALK, KERB)
        strip(kerb - 0.35 * sign, 0.1 * sign, start, end, WHITE if plan.seed % 2 else YELLOW)
        if plan.kerb > plan.lane:
            strip(sign * plan.lane, 0.1 * sign, start + 6, end - 6, WHITE)
    for _ in range(7):
        x, z = rng.uniform(-plan.kerb + 0.5, plan.kerb - 1.5), rng.uniform(start, end)
        strip(x, rng.uniform(0.5, 1.4), z, z + rng.uniform(0.6, 3), tinted(plan.asphalt, 0.82))
    for x in np.arange(-plan.kerb + 0.5, plan.kerb - 0.5, 1.0):
        strip(x, 0.5, start + 1, start + 3.6, WHITE)
    for z in np.arange(start + 5, end, 6.0):
        strip(-0.06, 0.12, z, z + 2.6, WHITE)
    strip(0, plan.side * plan.kerb, start - SIDE_STREET - 1.4, start - SIDE_STREET - 1, WHITE)
    return flats
