"""Cars, vans and buses: how they are painted, and how they are drawn."""

from dataclasses import dataclass

import cv2
import numpy as np

from stmg.data.synthetic.canvas import UNIT_SQUARE, Canvas, Point, turned
from stmg.data.synthetic.classes import CAR
from stmg.data.synthetic.textures import TEXELS, Array, Color, Texture, noise, rgba, tinted

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


def make_car(rng: np.random.Generator, kind: int, color: Color) -> CarModel:
    """Vehicle of `VEHICLES[kind]` (two cars, an estate, a van and a bus) in `color`."""
    length, width, height, belt, cabin = VEHICLES[kind]
    hole, tyre, dark, shine = (30, 30, 32, 0), (26, 26, 28, 255), (34, 38, 44, 255), (90, 102, 114, 255)
    seam = (*tinted(color, 0.5), 255)

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
    if kind == 3:  # no windows beside the load
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
    axes, center = turned(heading), np.array([x, 0.0, z])
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
        red, green, blue = tinted(model.color, 0.35)
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
