"""The plan of a street, which depends only on its seed: widths, light, camera, side streets and driving."""

from bisect import bisect
from functools import lru_cache
from math import cos, floor, pi, sin

import cv2
import numpy as np

from stmg.data.synthetic.textures import Array, scale_color

LIGHTS = (  # zenith, horizon, tint, strength of the sun, cloud cover
    ((74, 130, 205), (188, 212, 234), (1.03, 1.0, 0.96), 0.5, 0.4),
    ((120, 158, 208), (232, 226, 218), (1.04, 1.0, 0.94), 0.4, 0.0),
    ((158, 166, 176), (206, 209, 211), (0.94, 0.95, 0.97), 0.12, 1.2),
    ((92, 112, 164), (244, 206, 164), (1.08, 0.97, 0.84), 0.42, 0.2),
    ((70, 84, 124), (172, 160, 164), (0.78, 0.78, 0.84), 0.15, 0.3),
)
RANGE = 160.0  # metres of street in view, closed by the skyline
BLOCK = 92.0  # metres from one side street to the next, on average
SIDE_STREET = 8.4  # metres wide
KERB = 0.13  # metres high
BRAKE, STAND, START = 0.58, 0.7, 0.84  # when in a cycle of driving we brake, stand and start again


class Plan:
    """A street along z, seen by a camera that drives along it or stands at its kerb."""

    def __init__(self, seed: int, driving: bool) -> None:
        self.seed, self.driving = seed % 2**64, driving
        rng = self.rng("street")
        self.side = int(rng.choice([-1, 1]))  # the side that is driven on
        self.lane, parking = rng.uniform(3.0, 3.6), float(rng.random() < 0.75)
        self.kerb = self.lane + 2.1 * parking
        self.line = self.kerb + rng.uniform(2.8, 4.8)  # where the houses begin
        half = [self.lane, self.kerb, self.kerb + 1.1, self.line - 0.1]
        self.band_edges = sorted([0.0, *half, *(-edge for edge in half)])
        self.parked_share, self.tree_share = parking * rng.uniform(0.25, 0.9), rng.uniform(0.1, 0.9)
        self.house_share = rng.uniform(0.45, 0.9)
        self.asphalt = scale_color((100, 100, 103), rng.uniform(0.78, 1.12))
        self.paving = scale_color((160, 155, 147), rng.uniform(0.88, 1.14))
        self.zenith, self.horizon, tint, self.sun, self.cloud_cover = LIGHTS[rng.integers(len(LIGHTS))]
        self.tint = np.array(tint) * rng.uniform(0.85, 1.1)
        self.haze = (0.95 * float(np.mean(self.horizon)), rng.uniform(250, 900))
        angle, length = rng.uniform(0, 2 * pi), rng.uniform(0.4, 1.1) * (self.sun > 0.2)
        self.cast = length * np.array([cos(angle), sin(angle)])  # metres of shadow per metre of height
        left, front, right = (0.86 + 0.3 * self.sun * lit for lit in (-cos(angle), sin(angle), cos(angle)))
        self.shades = (left, front, right)
        self.focal, self.phase = rng.uniform(0.5, 0.6), rng.uniform(0, 1)
        self.height = rng.uniform(1.25, 2.1) if driving else rng.uniform(2.3, 3.3)
        self.pitch = rng.uniform(-0.06, 0.0) - (0.0 if driving else 0.06)
        self.cruise, self.cycle = rng.uniform(5, 10.5), rng.uniform(16, 28)
        self.corner = lru_cache(64)(self._make_corner)
        self._box_shadow = lru_cache(256)(self._make_box_shadow)

    def rng(self, purpose: str, *keys: int) -> np.random.Generator:
        """Random numbers that depend only on the seed, the purpose and `keys`."""
        return np.random.default_rng([self.seed, *purpose.encode(), *(key % 2**32 for key in keys)])

    def brightness(self, time: float) -> Array:
        """Gain (3,) of the picture: the color of the light and its slow changes."""
        gain: Array = self.tint * (1 + 0.07 * sin(time / 2.9 + self.seed % 7) + 0.03 * sin(time / 0.9))
        return gain

    def traveled(self, time: float) -> float:
        """Metres driven: cruise, brake, stand and pull off again in every cycle, integrated in closed form."""
        cycles = time / self.cycle + self.phase
        whole = floor(cycles)
        distance = whole * _cycle_distance(1.0) + _cycle_distance(cycles - whole)
        return self.cruise * self.cycle * distance if self.driving else 0.0

    def crossing_position(self, number: int) -> float:
        """Where along z people cross before us when we stand in cycle `number`."""
        return self.traveled((number + STAND - self.phase) * self.cycle) + 6

    def keeps_clear(self, sign: int, z: float) -> bool:
        """True if nothing may stand at the kerb: right before a fixed camera, or where people cross."""
        if not self.driving:
            return sign == self.side and -5 < z < 14
        number = round((z - self.crossing_position(0)) / (self.crossing_position(1) - self.crossing_position(0)))
        return abs(z - self.crossing_position(number)) < 4.5

    def band(self, x: float) -> int:
        """The band at `x`: lane, parking, kerbside, pavement or lots of either side, counted from the left."""
        return bisect(self.band_edges, x)

    def shadow(self, x: float, z: float, half_x: float, half_z: float, low: float, high: float) -> Array:
        """Ground (n, 3) shaded by a box around (x, z) reaching from `low` to `high`."""
        ground = np.array([x, KERB if abs(x) > self.kerb else 0.0, z])
        return ground + self._box_shadow(half_x, half_z, low, high)

    def _make_corner(self, number: int) -> float:
        """Where along z the middle of side street `number` lies."""
        return BLOCK * number + self.rng("corner", number).uniform(-14, 14)

    def _make_box_shadow(self, half_x: float, half_z: float, low: float, high: float) -> Array:
        base = np.array([[half_x, half_z], [half_x, -half_z], [-half_x, half_z], [-half_x, -half_z]])
        both = np.concatenate([base + self.cast * low, base + self.cast * high])
        return np.insert(cv2.convexHull(both.astype(np.float32))[:, 0].astype(float), 1, 0.0, axis=1)


def _cycle_distance(part: float) -> float:
    """Distance after `part` of a speed cycle, in cycles at full speed: smoothstep braking, rest, smoothstep start."""
    braking = min(max((part - BRAKE) / (STAND - BRAKE), 0.0), 1.0)
    starting = min(max((part - START) / (1 - START), 0.0), 1.0)
    braked = (STAND - BRAKE) * (braking - braking**3 + braking**4 / 2)
    return min(part, BRAKE) + braked + (1 - START) * (starting**3 - starting**4 / 2)
