"""The tracker: state that passes from frame to frame, accumulated drift, and breaks."""

import numpy as np
import pytest

from stmg.streaming.motion import DisMotion
from stmg.streaming.tracker import Lookback, Tracker
from stmg.video.frames import Frame
from zoo import panning, texture


def track(frames):
    tracker, tracked = Tracker(DisMotion()), [None]
    for frame in frames:
        tracked.append(tracker.track(frame, tracked[-1]))
    return tracked[1:]


def test_change_adds_up_until_a_frame_is_computed():
    noise = np.random.default_rng(0)
    frames = [np.clip(texture(96, 128) + noise.normal(0, 20, (96, 128, 3)), 0, 255).astype(np.uint8) for _ in range(4)]
    _, one, two, three = track([Frame(image) for image in frames])
    assert 0 < one.drift < two.drift < three.drift
    assert one.drift == pytest.approx(float(one.residual.mean()))
    after = Tracker(DisMotion()).track(Frame(frames[3]), two.as_computed())
    assert after.drift == pytest.approx(float(after.residual.mean()))


@pytest.mark.parametrize(
    ("times", "reasons"),
    [
        ([0, 0.1, 0.2, 3, 3.1], ["first frame", "", "", "gap", ""]),
        ([0, 0.1, 0.2, 3, 6], ["first frame", "", "", "gap", ""]),  # the interval before a gap says nothing after it
        ([0, 0.1, 0.05, 0.3], ["first frame", "", "gap", ""]),
        ([0, 0.01, 0.15], ["first frame", "", ""]),  # too short to be a gap
        ([None] * 3, ["first frame", "", ""]),
    ],
)
def test_a_frame_that_comes_much_later_or_earlier_follows_a_gap(times, reasons):
    still = texture(96, 128)
    assert [tracked.break_reason for tracked in track([Frame(still, time=time) for time in times])] == reasons


def test_a_break_has_neither_motion_nor_change():
    frames = [*panning(2, seed=1), *panning(2, seed=2), *panning(1, (64, 96))]
    tracked = track([Frame(image) for image in frames])
    assert [each.break_reason for each in tracked] == ["first frame", "", "cut", "", "size change"]
    for each in tracked:
        assert bool(each.break_reason) == (each.flow is None) == (each.residual is None) == (each.change is None)


def test_a_long_way_back_is_one_flow():
    tracked = track([Frame(image) for image in panning(4, step=3)])
    way = Lookback(tracked[0].view)
    for each in tracked[1:]:
        way = way.extend(each.flow)
    assert way.distance == 3
    assert np.median(way.flow[..., 0]) == pytest.approx(9 / 128, rel=0.15)
