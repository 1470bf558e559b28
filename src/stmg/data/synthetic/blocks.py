"""One block of the street, between two side streets: its houses, what stands along its kerbs, and its ground."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import pi, sin

import numpy as np

from stmg.data.synthetic.backdrop import make_ground, make_sky, make_skyline
from stmg.data.synthetic.canvas import Canvas, X
from stmg.data.synthetic.plan import KERB, RANGE, SIDE_STREET, Plan
from stmg.data.synthetic.road_users import CarModel, draw_car, draw_pedestrian, make_car, make_person
from stmg.data.synthetic.scenery import (
    STRIP_LENGTH,
    draw_building,
    draw_lamp,
    draw_sign,
    draw_strip,
    draw_traffic_light,
    draw_tree,
    make_facade,
    make_fence,
    make_foliage,
    make_hedge,
    make_sign,
)
from stmg.data.synthetic.textures import (
    BUILDING,
    FENCE,
    ROAD,
    SIDEWALK,
    TREE,
    Array,
    Color,
    Texture,
    parse_colors,
    scale_color,
)


@dataclass(frozen=True)
class SceneObject:
    """An object to draw: its band across the street, its order `z` within the band, and its end along z."""

    band: int
    z: float
    end: float
    reach: float  # metres up to which it is drawn
    draw: Callable[[Canvas], None]
    shadow: Array | None = None  # (n, 3) on the ground


def place_upright(
    plan: Plan, foot: Array, reach: float, draw: Callable[[Canvas], None], radius: float, height: float
) -> SceneObject:
    """Something slender, such as a lamp or a person."""
    x, _, z = foot.tolist()
    return SceneObject(plan.band(x), z, z, reach, draw, plan.shadow(x, z, radius, radius, 0, height))


def place_tree(plan: Plan, foliage: list[Texture], rng: np.random.Generator, root: Array) -> SceneObject:
    """Tree of random size, with a crown of two clumps of leaves."""
    trunk, wide, tall = rng.uniform(2.6, 3.6), rng.uniform(1.5, 2.6), rng.uniform(1.3, 2.6)
    crown = []
    for shift in (-0.3 * wide, 0.3 * wide):
        middle = np.array([shift, trunk + tall * rng.uniform(0.75, 0.9), -shift])
        crown.append((foliage[rng.integers(4)], middle, rng.uniform(0.85, 1.0) * np.array([wide, tall])))
    draw = partial(draw_tree, root, trunk + tall * 0.5, crown)
    x, _, z = root.tolist()
    shadow = plan.shadow(x, z, wide * 0.8, wide * 0.8, trunk * 0.8, trunk + tall)
    return SceneObject(plan.band(x), z, z, RANGE, draw, shadow)


def place_car(plan: Plan, model: CarModel, x: float, z: float, heading: float) -> SceneObject:
    """Car centered at (x, z)."""
    half_x, half_z = model.width / 2, model.length / 2
    if abs(sin(heading)) > 0.5:
        half_x, half_z = half_z, half_x
    shadow = plan.shadow(x, z, half_x + 0.08, half_z, 0, model.height * 0.8)
    draw = partial(draw_car, model, x, z, heading)
    return SceneObject(plan.band(x), z - half_z, z + half_z, 150, draw, shadow)


WALLS = parse_colors("985644 b29670 d6cab2 989690 c49e8a a8b2ba e2ded6 866856 ceb884 78483e")
PAINTS = parse_colors("bcbec2 26282e e4e4e0 841e22 223a70 60646a 2e5442 c49e34")
LEAVES = parse_colors("46622c 587032 38522e 96682c 6c763a")


class Materials:
    """Textures and models painted once for a street and used all along it."""

    def __init__(self, plan: Plan) -> None:
        rng = plan.rng("materials")
        walls = np.array(WALLS)[rng.permutation(len(WALLS))[:7]] * rng.uniform(0.85, 1.1)
        self.facades = [make_facade(rng, wall, number % 3 == 0) for number, wall in enumerate(walls)]
        paints = [PAINTS[number] for number in rng.permutation(len(PAINTS))]
        vehicles = (0, 1, 2, 3, 0, 1, 2, 4)  # the last one is a bus, which does not park
        self.cars = [make_car(rng, vehicle, paint) for vehicle, paint in zip(vehicles, paints, strict=True)]
        green = np.array(LEAVES[rng.integers(len(LEAVES))])
        self.foliage = [make_foliage(rng, green * rng.uniform(0.8, 1.15)) for _ in range(4)]
        self.hedge = make_hedge(rng, green * 0.85)
        self.fences = [make_fence(rng, fence_type) for fence_type in range(3)]
        self.signs = [make_sign(rng, sign_type) for sign_type in (0, 1, 2, 4, 3, 3)]
        self.sky = make_sky(rng, np.array(plan.zenith), np.array(plan.horizon), plan.cloud_cover)
        roofs = make_skyline(rng, np.array(WALLS[3]), step=40, rounding=1)
        trees = make_skyline(rng, green, step=8, rounding=14)
        self.skylines = ((roofs, BUILDING, 26.0), (trees, TREE, 11.0))  # texture, label, height
        asphalt, paving = make_ground(rng, 0), make_ground(rng, int(rng.choice([16, 32])))
        self.grains = ((asphalt, ROAD, 0.0), (paving, SIDEWALK, KERB))  # texture, label, height


GroundPolygon = tuple[float, tuple[Array, Color, int, float]]
"""Nearest z, and points, color, label and shade of a polygon on the ground."""

WHITE, YELLOW = parse_colors("cecec8 bea032")


@dataclass(frozen=True)
class Block:
    """Objects and ground between two side streets."""

    objects: list[SceneObject]
    ground: list[GroundPolygon]


def make_block(plan: Plan, materials: Materials, number: int) -> Block:
    """The block after side street `number`."""
    start, end = plan.corner(number) + SIDE_STREET / 2, plan.corner(number + 1) - SIDE_STREET / 2
    rng = plan.rng("block", number)
    objects = []
    for sign in (-1, 1):
        objects += _make_lots(plan, materials, rng, sign, start, end)
        objects += _make_kerbside(plan, materials, rng, sign, start, end)
    return Block(objects, _make_ground(plan, rng, start, end))


def _make_lots(
    plan: Plan, materials: Materials, rng: np.random.Generator, sign: int, start: float, end: float
) -> list[SceneObject]:
    """Houses on the building line or behind gardens, and open plots, until one side of the block is full."""
    outside = plan.band(99.0 * sign)
    objects: list[SceneObject] = []
    z, neighbor = start, 0.0
    while z < end - 4:
        facade = materials.facades[rng.integers(len(materials.facades))]
        chance, length = rng.random(), min(facade.width, end - z)
        if chance < plan.house_share and length == facade.width:
            flanks = 3 if z == start else int(facade.height + facade.ridge > neighbor)
            line = sign * plan.line
            house = partial(draw_building, facade, sign, line, z, flanks, neighbor, plan.shades)
            shadow = plan.shadow(sign * (plan.line + 5), z + length / 2, 5, length / 2, 0, facade.height)
            objects.append(SceneObject(outside, z + length, z + length, RANGE, house, shadow))
            z, neighbor = z + length, facade.height
            continue
        if chance < 0.6 + 0.4 * plan.house_share and length == facade.width:
            back = sign * (plan.line + rng.uniform(5, 8))
            house = partial(draw_building, facade, sign, back, z + 0.5, 2, 0.0, plan.shades)
            objects.append(SceneObject(outside, z + length, z + length, RANGE, house))
        for _ in range(rng.integers(0, 3)):
            root = np.array([sign * (plan.line + rng.uniform(1.5, 4)), KERB, z + rng.uniform(1, length - 1)])
            objects.append(place_tree(plan, materials.foliage, rng, root))
        hedge = rng.random() < 0.25
        texture = materials.hedge if hedge else materials.fences[rng.integers(3)]
        start_point, height = np.array([sign * plan.line, KERB, z]), rng.uniform(1.0, 1.9)
        label, shade = TREE if hedge else FENCE, plan.shades[1 + sign]
        fenced = min(length, STRIP_LENGTH)
        boundary = partial(draw_strip, texture, label, start_point, fenced, height, shade)
        objects.append(SceneObject(outside, z, z + length, 150, boundary))
        z, neighbor = z + length, 0.0
    return objects


def _make_kerbside(
    plan: Plan, materials: Materials, rng: np.random.Generator, sign: int, start: float, end: float
) -> list[SceneObject]:
    """Trees, lamps, signs, railings, parked cars and people standing along one side of a block."""
    objects: list[SceneObject] = []
    for z in np.arange(start + 3, end - 3, rng.uniform(5, 7)):
        foot = np.array([sign * (plan.kerb + 0.55), KERB, z + rng.uniform(-1, 1)])
        chance = rng.random() - 0.5 * plan.tree_share
        if plan.keeps_clear(sign, z):
            continue
        if chance < 0:
            objects.append(place_tree(plan, materials.foliage, rng, foot))
        elif chance < 0.18:
            lamp = partial(draw_lamp, foot, rng.uniform(5, 7.5), -1.4 * sign)
            objects.append(place_upright(plan, foot, 120, lamp, 0.07, 6))
        elif chance < 0.36:
            sign_type = int(rng.integers(len(materials.signs)))
            width, height = (1.5, 1.1) if sign_type > 3 else (0.8, 0.8)
            sign_post = partial(draw_sign, materials.signs[sign_type], foot, width, height)
            objects.append(place_upright(plan, foot, 110, sign_post, 0.05, 2.8))
        elif chance < 0.46:
            start_point = foot - 0.4 * sign * X
            rails = partial(draw_strip, materials.fences[1], FENCE, start_point, 4.5, 1.05, 1.0)
            objects.append(SceneObject(plan.band(foot[0]), foot[2], foot[2] + 4.5, 110, rails))
    for z in np.arange(start + 8, end - 10, 5.9):
        x, heading = sign * (plan.kerb - 1.05 + rng.uniform(-0.1, 0.1)), rng.choice([0.0, pi])
        if rng.random() < plan.parked_share and not plan.keeps_clear(sign, z):
            objects.append(place_car(plan, materials.cars[rng.integers(7)], x, z + rng.uniform(-0.5, 0.5), heading))
    if rng.random() < 0.6:  # parked in the side street
        x = sign * rng.uniform(plan.line + 3, plan.line + 14)
        objects.append(place_car(plan, materials.cars[rng.integers(7)], x, start - SIDE_STREET + 1.6, pi / 2))
    foot = np.array([sign * (plan.kerb + 0.4), KERB, start - SIDE_STREET - 1.2])
    if sign == plan.side and not plan.keeps_clear(sign, foot[2]):
        light = partial(draw_traffic_light, foot, int(rng.choice([0, 2])))
        objects.append(place_upright(plan, foot, 130, light, 0.07, 3))
    for _ in range(rng.integers(0, 4)):
        feet = np.array([sign * rng.uniform(plan.kerb + 1.6, plan.line - 0.4), KERB, rng.uniform(start, end)])
        stands = partial(draw_pedestrian, make_person(rng), feet, rng.uniform(0, 6), 0.8, 0.15)
        objects.append(place_upright(plan, feet, 90, stands, 0.2, 1.6))
    return objects


def _make_ground(plan: Plan, rng: np.random.Generator, start: float, end: float) -> list[GroundPolygon]:
    """Pavements with their kerbs, patches of asphalt and markings of a block."""
    polygons: list[GroundPolygon] = []

    def strip(x: float, width: float, near: float, far: float, color: Color, label: int = ROAD, y: float = 0.0) -> None:
        points = np.array([[x, y, near], [x + width, y, near], [x + width, y, far], [x, y, far]])
        polygons.append((near, (points, color, label, 1.0)))

    for sign in (-1, 1):
        kerb = sign * plan.kerb
        for x, z in ((300.0 * sign, start), (kerb, end)):  # the kerb's faces to us and to the road
            face = np.array([[kerb, 0, start], [x, 0, z], [x, KERB, z], [kerb, KERB, start]])
            polygons.append((start, (face, plan.paving, SIDEWALK, 0.82)))
        strip(kerb, 300.0 * sign, start, end, plan.paving, SIDEWALK, KERB)
        strip(kerb, 0.16 * sign, start, end, scale_color(plan.paving, 1.12), SIDEWALK, KERB)
        strip(kerb - 0.35 * sign, 0.1 * sign, start, end, WHITE if plan.seed % 2 else YELLOW)
        if plan.kerb > plan.lane:
            strip(sign * plan.lane, 0.1 * sign, start + 6, end - 6, WHITE)
    for _ in range(7):
        x, z = rng.uniform(-plan.kerb + 0.5, plan.kerb - 1.5), rng.uniform(start, end)
        strip(x, rng.uniform(0.5, 1.4), z, z + rng.uniform(0.6, 3), scale_color(plan.asphalt, 0.82))
    for x in np.arange(-plan.kerb + 0.5, plan.kerb - 0.5, 1.0):
        strip(x, 0.5, start + 1, start + 3.6, WHITE)
    for z in np.arange(start + 5, end, 6.0):
        strip(-0.06, 0.12, z, z + 2.6, WHITE)
    strip(0, plan.side * plan.kerb, start - SIDE_STREET - 1.4, start - SIDE_STREET - 1, WHITE)
    return polygons
