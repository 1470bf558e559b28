"""The plan of a rendered street: how the camera drives along it."""

import numpy as np

from stmg.data.synthetic.plan import Plan


def test_driving_speeds_up_and_stands():
    plan = Plan(0, driving=True)
    way = np.array([plan.traveled(step / 15) for step in range(15 * 60)])
    speed = 15 * np.diff(way)
    assert speed.min() > -1e-6
    assert speed.min() < 0.01
    assert 4 < speed.max() < 12
    assert np.abs(np.diff(speed)).max() < 1
