"""The materials of one street: which houses, cars, plants, fences, signs, sky and ground it is made of."""

import numpy as np

from stmg.data.synthetic.buildings import make_facade
from stmg.data.synthetic.classes import BUILDING, ROAD, SIDEWALK, TREE
from stmg.data.synthetic.ground import make_ground
from stmg.data.synthetic.plan import KERB, Plan
from stmg.data.synthetic.roadside import make_fence, make_foliage, make_hedge, make_sign
from stmg.data.synthetic.sky import make_sky, make_skyline
from stmg.data.synthetic.textures import hexadecimal
from stmg.data.synthetic.vehicles import make_car

WALLS = hexadecimal("985644 b29670 d6cab2 989690 c49e8a a8b2ba e2ded6 866856 ceb884 78483e")
PAINTS = hexadecimal("bcbec2 26282e e4e4e0 841e22 223a70 60646a 2e5442 c49e34")
LEAVES = hexadecimal("46622c 587032 38522e 96682c 6c763a")


class Materials:
    """Textures and models painted once for a street and used all along it."""

    def __init__(self, plan: Plan) -> None:
        rng = plan.rng("materials")
        walls = np.array(WALLS)[rng.permutation(len(WALLS))[:7]] * rng.uniform(0.85, 1.1)
        self.facades = [make_facade(rng, wall, number % 3 == 0) for number, wall in enumerate(walls)]
        paints = [PAINTS[number] for number in rng.permutation(len(PAINTS))]
        kinds = (0, 1, 2, 3, 0, 1, 2, 4)  # the last one is a bus, which does not park
        self.cars = [make_car(rng, kind, paint) for kind, paint in zip(kinds, paints, strict=True)]
        green = np.array(LEAVES[rng.integers(len(LEAVES))])
        self.foliage = [make_foliage(rng, green * rng.uniform(0.8, 1.15)) for _ in range(4)]
        self.hedge = make_hedge(rng, green * 0.85)
        self.fences = [make_fence(rng, kind) for kind in range(3)]
        self.signs = [make_sign(rng, kind) for kind in (0, 1, 2, 4, 3, 3)]
        self.sky = make_sky(rng, np.array(plan.zenith), np.array(plan.horizon), plan.cloud_cover)
        roofs = make_skyline(rng, np.array(WALLS[3]), step=40, rounding=1)
        trees = make_skyline(rng, green, step=8, rounding=14)
        self.skylines = ((roofs, BUILDING, 26.0), (trees, TREE, 11.0))  # texture, label, height
        asphalt, paving = make_ground(rng, 0), make_ground(rng, int(rng.choice([16, 32])))
        self.grains = ((asphalt, ROAD, 0.0), (paving, SIDEWALK, KERB))  # texture, label, height
