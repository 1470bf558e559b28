"""Traffic: the cars, cyclists and pedestrians that move, and where each of them is at any time."""

from dataclasses import dataclass
from functools import lru_cache, partial
from math import ceil, floor, pi, sin

import numpy as np

from stmg.data.synthetic.blocks import SceneObject, place_car, place_upright
from stmg.data.synthetic.plan import BLOCK, KERB, SIDE_STREET, STAND, Plan
from stmg.data.synthetic.road_users import CarModel, Person, draw_cyclist, draw_pedestrian, make_person


@dataclass(frozen=True)
class Stream:
    """An endless row of movers sharing a speed, so that those in view depend only on the time."""

    mover_type: str
    x: float
    speed: float
    spacing: float
    share: float  # of its slots taken


@dataclass(frozen=True)
class Mover:
    """A road user in a stream: position at time 0, looks, and car."""

    start: float
    x: float
    person: Person
    car: CarModel


class Traffic:
    """Everything that moves in a street, on streams along it and across it where the camera stands."""

    def __init__(self, plan: Plan, cars: list[CarModel]) -> None:
        self.plan, self.cars = plan, cars
        self.streams = self._make_streams(plan.rng("streams"))
        self.mover = lru_cache(2048)(self._make_mover)

    def objects(self, z: float, time: float) -> list[SceneObject]:
        """Everything that moves and is in view from `z`, where it is at `time`."""
        objects = self._along(z, time)
        if self.plan.driving:
            objects += self._ahead(z, time)
            objects += self._crossing(time)
        return objects

    def _along(self, z: float, time: float) -> list[SceneObject]:
        """Cars, pedestrians and cyclists that move along the street."""
        plan = self.plan
        objects: list[SceneObject] = []
        for tag, stream in enumerate(self.streams):
            traveled, heading = stream.speed * time, 0.0 if stream.speed > 0 else pi
            first, last = (ceil((z + margin - traveled) / stream.spacing) for margin in (-6, 110))
            for mover in (self.mover(tag, number) for number in range(first - 1, last)):
                if mover is None:
                    continue
                at = mover.start + traveled
                if stream.mover_type == "car":
                    objects.append(place_car(plan, mover.car, mover.x, at, heading))
                    continue
                in_side_street = abs(at - plan.corner(round(at / BLOCK))) < SIDE_STREET / 2
                raised = abs(mover.x) > plan.kerb and not in_side_street
                feet = np.array([mover.x, KERB if raised else 0.0, at])
                way = abs(traveled) + mover.start  # how far round the legs are differs from one to the next
                if stream.mover_type == "pedestrian":
                    draw = partial(draw_pedestrian, mover.person, feet, heading, way * 4.5, 0.45)
                else:
                    draw = partial(draw_cyclist, mover.person, feet, heading, -way)
                objects.append(place_upright(plan, feet, 100, draw, 0.2, 1.6))
        return objects

    def _ahead(self, z: float, time: float) -> list[SceneObject]:
        """Cars ahead of the camera in its lane."""
        plan = self.plan
        objects = []
        gap = 19 + 6 * sin(time / 5.1 + plan.phase * 9)
        for number in range(3 if plan.parked_share > 0.4 else 1):
            car = self.cars[plan.rng("ahead", number).integers(8)]
            objects.append(place_car(plan, car, plan.side * plan.lane / 2, z + gap + 13 * number, 0.0))
        return objects

    def _crossing(self, time: float) -> list[SceneObject]:
        """Who crosses before us each time we stand; they keep waiting when something is coming the other way."""
        plan = self.plan
        objects = []
        edge, pace, oncoming = plan.kerb + 0.6, 1.5, self.streams[0]
        for number in (floor(time / plan.cycle + plan.phase) + step for step in (0, 1)):
            at, began = plan.crossing_position(number), (number + STAND - 0.03 - plan.phase) * plan.cycle
            # Where a car of the other lane must have been at time 0 to meet somebody walking through that lane.
            near, far = (at - oncoming.speed * (began + way / pace) for way in (edge, edge + plan.lane))
            slots = range(floor((near - 6) / oncoming.spacing) - 1, ceil((far + 6) / oncoming.spacing))
            cars = [self.mover(0, slot) for slot in slots]
            clear = not any(car and near - 6 < car.start < far + 6 for car in cars)
            walked = min(max(pace * (time - began), 0.0), 2 * edge) if clear else 0.0
            x, swing = plan.side * (edge - walked), 0.45 if 0 < walked < 2 * edge else 0.1
            feet = np.array([x, KERB if abs(x) > plan.kerb else 0.0, at])
            person = make_person(plan.rng("crossing", number))
            draw = partial(draw_pedestrian, person, feet, -plan.side * pi / 2, walked * 4.5, swing)
            objects.append(place_upright(plan, feet, 90, draw, 0.2, 1.6))
        return objects

    def _make_streams(self, rng: np.random.Generator) -> list[Stream]:
        plan = self.plan
        streams = [Stream("car", -plan.side * plan.lane / 2, -rng.uniform(5, 11), rng.uniform(14, 34), 0.6)]
        if not plan.driving:
            streams.append(Stream("car", plan.side * plan.lane / 2, rng.uniform(5, 10), rng.uniform(16, 34), 0.6))
        for sign in (-1, 1):
            for x, speed in ((plan.kerb + 1.4, 1.25), (plan.line - 0.5, -1.45)):
                streams.append(Stream("pedestrian", sign * x, speed, rng.uniform(6, 18), rng.uniform(0.4, 0.9)))
            speed = sign * plan.side * rng.uniform(3.4, 5)
            streams.append(Stream("bicycle", sign * (plan.lane - 0.45), speed, rng.uniform(18, 40), 0.7))
        return streams

    def _make_mover(self, tag: int, number: int) -> Mover | None:
        rng, stream = self.plan.rng("mover", tag, number), self.streams[tag]
        if rng.random() > stream.share:
            return None
        start = (number + rng.uniform(0, 0.5)) * stream.spacing
        aside = 0.0 if stream.mover_type == "car" else rng.uniform(-0.3, 0.3)
        return Mover(start, stream.x + aside, make_person(rng), self.cars[rng.integers(8)])
