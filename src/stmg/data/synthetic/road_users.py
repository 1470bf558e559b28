"""Road users: people on foot and on bicycles, cars, vans and buses."""

from dataclasses import dataclass
from itertools import pairwise
from math import cos, pi, sin

import cv2
import numpy as np

from stmg.data.synthetic.canvas import UNIT_SQUARE, Canvas, Limb, Point, heading_axes
from stmg.data.synthetic.textures import (
    BICYCLIST,
    CAR,
    PEDESTRIAN,
    TEXELS,
    Array,
    Color,
    Texture,
    noise,
    parse_colors,
    rgba,
    scale_color,
)

SKINS = parse_colors("e0b496 c69674 8c6046 5c3e30")
HAIRS = parse_colors("281e1a 604228 b49660 1e223c 961e1e")


@dataclass(frozen=True)
class Person:
    """Colors of a person, and their size relative to 1.75 metres."""

    shirt: Color
    trousers: Color
    skin: Color
    hair: Color
    size: float


def make_person(rng: np.random.Generator) -> Person:
    """A person with random clothes."""
    skin, hair = SKINS[rng.integers(len(SKINS))], HAIRS[rng.integers(len(HAIRS))]
    shirt, trousers = ((rng.uniform(20, top), rng.uniform(20, top), rng.uniform(20, top)) for top in (220, 130))
    return Person(shirt, trousers, skin, hair, rng.uniform(0.85, 1.08))


def draw_pedestrian(person: Person, feet: Array, heading: float, phase: float, swing: float, canvas: Canvas) -> None:
    """A person standing on `feet`; `phase` runs through a pair of steps and `swing` is how far the legs go."""
    limbs: list[Limb] = [
        ((0, 0.96, 0), (0, 1.36, 0), 0.16, 0.19, person.shirt),
        ((0, 1.45, 0), (0, 1.62, 0.02), 0.06, 0.11, person.skin),
        ((0, 1.66, -0.03), (0, 1.66, -0.02), 0.115, 0.115, person.hair),
    ]
    for side in (-1, 1):
        hip, arm = side * swing * sin(phase), -0.8 * side * swing * sin(phase)
        shin = hip - 0.1 - swing * max(0.0, side * cos(phase))
        knee = (side * 0.09, 0.92 - 0.44 * cos(hip), 0.44 * sin(hip))
        heel = (side * 0.1, knee[1] - 0.43 * cos(shin), knee[2] + 0.43 * sin(shin))
        elbow = (side * 0.25, 1.38 - 0.28 * cos(arm), 0.28 * sin(arm))
        limbs += [
            ((side * 0.09, 0.92, 0), knee, 0.09, 0.07, person.trousers),
            (knee, heel, 0.07, 0.05, person.trousers),
            ((side * 0.2, 1.38, 0), elbow, 0.06, 0.05, person.shirt),
        ]
        if feet[2] - canvas.position[2] < 40:
            hand = (side * 0.25, elbow[1] - 0.26 * cos(arm + 0.4), elbow[2] + 0.26 * sin(arm + 0.4))
            toe = (heel[0], heel[1] - 0.02, heel[2] + 0.13)
            limbs += [(elbow, hand, 0.045, 0.04, person.skin), (heel, toe, 0.045, 0.04, (34, 30, 30))]
    canvas.limbs(limbs, PEDESTRIAN, feet, heading_axes(heading, person.size))


def draw_cyclist(person: Person, wheels: Array, heading: float, phase: float, canvas: Canvas) -> None:
    """Rider on a bicycle standing on the point `wheels`; `phase` turns the pedals."""
    limbs: list[Limb] = []
    hubs = rear_hub, front_hub = (0.0, 0.34, -0.52), (0.0, 0.34, 0.52)
    for _, y, z in hubs:
        rim = [(0.0, y + 0.33 * sin(turn), z + 0.33 * cos(turn)) for turn in np.linspace(0, 2 * pi, 11)]
        limbs += [(start, end, 0.028, 0.028, (24, 24, 26)) for start, end in pairwise(rim)]
    crank, saddle, head = (0.0, 0.3, -0.05), (0.0, 0.92, -0.22), (0.0, 0.85, 0.4)
    for start, end in ((crank, saddle), (crank, head), (saddle, head), (crank, rear_hub), (head, front_hub)):
        limbs.append((start, end, 0.025, 0.025, person.hair))
    limbs += [
        ((0, 0.98, -0.2), (0, 1.38, 0.14), 0.15, 0.18, person.shirt),
        ((0, 1.48, 0.2), (0, 1.6, 0.26), 0.07, 0.11, person.skin),
        ((0, 1.65, 0.23), (0, 1.65, 0.27), 0.12, 0.12, person.trousers),
    ]
    for side in (-1, 1):
        turn = phase + side * pi / 2
        pedal = (side * 0.1, 0.3 + 0.16 * sin(turn), -0.05 + 0.16 * cos(turn))
        knee = (side * 0.1, (pedal[1] + 0.95) / 2 + 0.06, (pedal[2] - 0.2) / 2 + 0.24)
        limbs += [
            ((side * 0.09, 0.95, -0.2), knee, 0.09, 0.07, person.trousers),
            (knee, pedal, 0.06, 0.05, person.trousers),
            ((side * 0.2, 1.38, 0.14), (side * 0.25, 1.0, 0.42), 0.055, 0.04, person.shirt),
        ]
    canvas.limbs(limbs, BICYCLIST, wheels, heading_axes(heading, person.size))


VEHICLES = (  # length, width, height, belt, cabin
    (3.9, 1.72, 1.48, 0.88, (-1.92, -1.5, 0.35, 1.05)),
    (4.5, 1.78, 1.44, 0.90, (-1.65, -0.95, 0.4, 1.15)),
    (4.6, 1.86, 1.70, 1.02, (-2.25, -1.95, 0.5, 1.2)),
    (5.2, 1.95, 2.15, 1.15, (-2.58, -2.5, 1.4, 2.1)),
    (9.5, 2.45, 2.95, 1.20, (-4.72, -4.66, 4.5, 4.7)),
)
BONNET_DROP = 0.14  # metres by which a bonnet slopes


@dataclass(frozen=True)
class CarModel:
    """A vehicle, in metres. `cabin` is where, forward from the middle, the cabin starts at the belt line and at the
    roof, and where it ends at the roof and at the belt line."""

    length: float
    width: float
    height: float
    belt: float
    cabin: tuple[float, float, float, float]
    color: Color
    side: Texture
    windows: Texture
    rear: Texture
    front: Texture
    glass: Texture


def make_car(rng: np.random.Generator, vehicle: int, color: Color) -> CarModel:
    """Vehicle of `VEHICLES[vehicle]` (two cars, an estate, a van and a bus) in `color`."""
    length, width, height, belt, cabin = VEHICLES[vehicle]
    hole, tyre, dark, shine = (30, 30, 32, 0), (26, 26, 28, 255), (34, 38, 44, 255), (90, 102, 114, 255)
    seam = (*scale_color(color, 0.5), 255)

    def panel(wide: float, tall: float) -> Array:
        rows, columns = round(tall * TEXELS), round(wide * TEXELS)
        sheen = np.linspace(1.12, 0.72, rows)[:, None] + 0.03 * noise(rng, (rows, columns), 1.2)
        return rgba(np.array(color) * sheen[..., None]).level(0, 0)

    def shape(pixels: Array, corners: list[tuple[float, float]], fill: tuple[float, ...]) -> None:
        cv2.fillPoly(pixels, [np.round(np.array(corners) * TEXELS).astype(np.int32)], fill)

    def box(pixels: Array, left: float, top: float, right: float, bottom: float, fill: tuple[float, ...]) -> None:
        shape(pixels, [(left, top), (right, top), (right, bottom), (left, bottom)], fill)

    side = panel(length, belt)
    box(side, 0, belt - 0.27, length, belt, hole)
    box(side, 0, belt - 0.36, length, belt - 0.27, dark)
    for share in (0.33, 0.52, 0.7):
        box(side, length * share, 0.03, length * share, belt - 0.36, seam)
    for middle in (0.18 * length, 0.81 * length):
        axle = (round(middle * TEXELS), round((belt - 0.31) * TEXELS))
        for radius, fill in ((0.37, (18, 18, 20, 255)), (0.31, tyre), (0.19, (150, 152, 156, 255)), (0.07, dark)):
            cv2.circle(side, axle, round(radius * TEXELS), fill, -1)

    house, rise, rear_slope, front_slope = cabin[3] - cabin[0], height - belt, cabin[1] - cabin[0], cabin[3] - cabin[2]
    windows, top, bottom = panel(house, rise), 0.1, rise - 0.04
    roof_ends = (rear_slope + 0.06, house - front_slope - 0.06)
    shape(windows, [(roof_ends[0], top), (roof_ends[1], top), (house - 0.2, bottom), (0.2, bottom)], dark)
    shape(windows, [(rear_slope + 0.3, top), (rear_slope + 0.7, top), (0.7, bottom), (0.4, bottom)], shine)
    for start in np.arange(1.1, house - 0.6, 1.1):
        box(windows, start, 0.05, start + 0.08, rise, seam)
    if vehicle == 3:  # no windows beside the load
        windows[:, : round(0.6 * house * TEXELS)] = panel(0.6 * house, rise)

    def end(lamp: tuple[int, ...], plate: tuple[int, ...], grille: tuple[float, ...]) -> Texture:
        face = panel(width, belt)
        box(face, 0, belt - 0.27, width, belt, hole)
        box(face, 0.02, belt - 0.42, width - 0.03, belt - 0.27, dark)
        box(face, 0.4, 0.2, width - 0.4, 0.36, grille)
        box(face, width / 2 - 0.26, 0.4, width / 2 + 0.26, 0.5, plate)
        for left in (0.06, width - 0.3):
            box(face, left, belt - 0.3, left + 0.22, belt, tyre)
            box(face, left, 0.18, left + 0.24, 0.34, lamp)
        return Texture(face)

    rear = end((196, 24, 26, 255), (232, 200, 60, 255), seam)
    front = end((248, 246, 226, 255), (238, 238, 232, 255), dark)
    glass = panel(width, 1.0)
    box(glass, 0.12, 0.08, width - 0.14, 0.92, dark)
    shape(glass, [(0.3, 0.08), (0.7, 0.08), (0.5, 0.92), (0.2, 0.92)], shine)
    textures = (Texture(side), Texture(windows), rear, front, Texture(glass))
    return CarModel(length, width, height, belt, cabin, color, *textures)


def draw_car(model: CarModel, x: float, z: float, heading: float, canvas: Canvas) -> None:
    """Car centered at (x, z): a body up to the belt line and, as it covers the body, then the cabin on top."""
    axes, center = heading_axes(heading), np.array([x, 0.0, z])
    start, roof_start, roof_end, end = model.cabin
    half, wide, belt, rise = model.length / 2, model.width / 2, model.belt, model.height - model.belt
    inset, nose = 0.13, model.belt - BONNET_DROP
    roof_half = wide - inset

    def level(near: float, far: float, aside: float, near_height: float, far_height: float) -> list[Point]:
        return [
            (-aside, near_height, near),
            (aside, near_height, near),
            (aside, far_height, far),
            (-aside, far_height, far),
        ]

    def fill(points: list[Point], color: Color, shade: float, hull: bool = False) -> None:
        canvas.polygon(center + np.array(points) @ axes, color, CAR, shade, hull)

    def face(
        texture: Texture, corner: Point, across: Point, down: Point, shade: float, part: Array = UNIT_SQUARE
    ) -> None:
        origin, right, below = np.array([corner, across, down]) @ axes
        canvas.surface(texture, center + origin, right, below, CAR, shade, part)

    roof = level(roof_start, roof_end, roof_half, model.height, model.height)
    if z - canvas.position[2] > 45:  # small in the image: two hulls are enough
        fill(level(-half, half, wide, 0.2, 0.2) + level(-half, half, wide, nose, nose), model.color, 0.85, hull=True)
        red, green, blue = scale_color(model.color, 0.35)
        fill(roof + level(start, end, wide, nose, nose), (red + 28, green + 28, blue + 28), 1.0, hull=True)
        return
    aside, height, ahead = (axes @ (canvas.position - center)).tolist()
    flank = 1 if aside > 0 else -1
    fill(level(-half, start, wide, belt, belt), model.color, 1.1)
    fill(level(end, half, wide, belt, nose), model.color, 1.1)
    if abs(aside) > wide:
        below_bonnet = np.array([[0, 0], [end / model.length + 0.5, 0], [1, BONNET_DROP / belt], [1, 1], [0, 1]])
        face(model.side, (flank * wide, belt, -half), (0, 0, model.length), (0, -belt, 0), 0.92, below_bonnet)
    if ahead < -half:
        face(model.rear, (-wide, belt, -half), (model.width, 0, 0), (0, -belt, 0), 0.85)
    if ahead > half:
        face(model.front, (-wide, nose, half), (model.width, 0, 0), (0, -nose, 0), 1.0)
    if height > model.height:
        fill(roof, model.color, 1.15)
    taper = inset / model.width
    pane = np.array([[taper, 0], [1 - taper, 0], [1, 1], [0, 1]])
    for top, bottom, faces_us in ((roof_start, start, ahead < start), (roof_end, end, ahead > end)):
        if faces_us:
            corner, down = (-wide, model.height, top), (0.0, -rise, bottom - top)
            face(model.glass, corner, (model.width, 0, 0), down, 0.95, pane)
    if abs(aside) > wide:
        house = end - start
        windows = np.array([[(roof_start - start) / house, 0], [(roof_end - start) / house, 0], [1, 1], [0, 1]])
        corner = (flank * roof_half, model.height, start)
        face(model.windows, corner, (0, 0, house), (flank * inset, -rise, 0), 0.95, windows)
