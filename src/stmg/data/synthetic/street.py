"""The street as a camera sees it: ground, blocks and traffic drawn in the right order."""

from functools import lru_cache, partial
from math import ceil, floor, sin

import numpy as np

from stmg.data.synthetic.blocks import make_block
from stmg.data.synthetic.canvas import Canvas
from stmg.data.synthetic.classes import ROAD
from stmg.data.synthetic.ground import light_ground
from stmg.data.synthetic.materials import Materials
from stmg.data.synthetic.plan import BLOCK, RANGE, Plan
from stmg.data.synthetic.sky import draw_sky, draw_skyline
from stmg.data.synthetic.things import Thing
from stmg.data.synthetic.traffic import Traffic


class Street:
    """A street built block by block from its plan."""

    def __init__(self, plan: Plan) -> None:
        self.plan, self.materials = plan, Materials(plan)
        self.traffic = Traffic(plan, self.materials.cars)
        self.block = lru_cache(12)(partial(make_block, plan, self.materials))

    def draw(self, size: tuple[int, int], time: float) -> Canvas:
        """The street as the camera sees it at `time`."""
        plan, way = self.plan, self.plan.traveled(time)
        canvas = self._canvas(size, way)
        blocks = [self.block(number) for number in range(floor(way / BLOCK) - 1, ceil((way + RANGE) / BLOCK) + 1)]
        movers = self.traffic.things(way, time)
        things = self._in_order(canvas, movers + [thing for block in blocks for thing in block.things])
        draw_sky(self.materials.sky, 2 * (time % 500), canvas)
        plain = np.array([[-6000, 0, way], [6000, 0, way], [6000, 0, way + 6000], [-6000, 0, way + 6000]])
        canvas.polygon(plain, plan.asphalt, ROAD)
        for z, polygon in (flat for block in blocks for flat in block.ground):
            if z - way < 110:
                canvas.polygon(*polygon)
        shadows = [thing.shadow for thing in things if thing.shadow is not None]
        light_ground(self.materials.grains, shadows, 0.75 - 0.5 * plan.sun, plan.haze, canvas)
        canvas.haze = plan.haze
        for skyline, label, height in self.materials.skylines:
            draw_skyline(skyline, label, height, way + RANGE, canvas)
        for thing in things:
            thing.draw(canvas)
        return canvas

    def _canvas(self, size: tuple[int, int], way: float) -> Canvas:
        """Empty canvas of the camera, which sways with the `way` it has gone, so that it is still when it stands."""
        plan = self.plan
        across = plan.side * (plan.lane / 2 if plan.driving else plan.kerb + 0.4)
        position = np.array([across + 0.18 * sin(way / 13), plan.height + 0.008 * sin(way / 1.7), way])
        yaw = 0.025 * sin(way / 19) + 0.012 * sin(way / 6.3)
        pitch = plan.pitch + 0.003 * sin(way / 3.1) + 0.004 * sin(way / 9)
        if not plan.driving:
            yaw -= plan.side * (0.06 + 0.14 * plan.phase)
        return Canvas(size, plan.focal * sum(size), position, yaw, pitch)

    def _in_order(self, canvas: Canvas, things: list[Thing]) -> list[Thing]:
        """What is in view, in drawing order.

        Seen from within the street, what is further aside never covers what is closer to the camera's own band, and
        within a band nearer things cover farther ones, so sorting by band and then by z is exact.
        """
        x, _, z = canvas.position
        band = self.plan.band(x)
        seen = [thing for thing in things if thing.end > z and thing.z - z < thing.reach]
        return sorted(seen, key=lambda thing: (-abs(thing.band - band), -thing.z))
