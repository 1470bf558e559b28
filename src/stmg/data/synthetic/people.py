"""People on foot and on bicycles: what they look like, and how they are drawn."""

from dataclasses import dataclass
from itertools import pairwise
from math import cos, pi, sin

import numpy as np

from stmg.data.synthetic.canvas import Canvas, Limb, turned
from stmg.data.synthetic.classes import BICYCLIST, PEDESTRIAN
from stmg.data.synthetic.textures import Array, Color, hexadecimal

SKINS = hexadecimal("e0b496 c69674 8c6046 5c3e30")
HAIRS = hexadecimal("281e1a 604228 b49660 1e223c 961e1e")


@dataclass(frozen=True)
class Person:
    """Colors of somebody, and their size relative to 1.75 metres."""

    shirt: Color
    trousers: Color
    skin: Color
    hair: Color
    size: float


def make_person(rng: np.random.Generator) -> Person:
    """Somebody with random clothes."""
    skin, hair = SKINS[rng.integers(len(SKINS))], HAIRS[rng.integers(len(HAIRS))]
    shirt, trousers = ((rng.uniform(20, top), rng.uniform(20, top), rng.uniform(20, top)) for top in (220, 130))
    return Person(shirt, trousers, skin, hair, rng.uniform(0.85, 1.08))


def draw_pedestrian(person: Person, feet: Array, heading: float, phase: float, swing: float, canvas: Canvas) -> None:
    """Somebody standing on `feet`; `phase` runs through a pair of steps and `swing` is how far the legs go."""
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
    canvas.limbs(limbs, PEDESTRIAN, feet, turned(heading, person.size))


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
    canvas.limbs(limbs, BICYCLIST, wheels, turned(heading, person.size))
