from types import SimpleNamespace

import numpy as np
import pytest

import stmg
from stmg.runtimes.callable import CallableRuntime
from stmg.streaming import fit
from stmg.streaming.fit import choose_level, fit_motion
from stmg.streaming.motion import AutoMotion, DisMotion
from stmg.video.frames import Frame

FLOW = 0.001  # seconds of the coarsest motion, by a clock that only motion and networks set forward
now = [0.0]


@pytest.fixture(autouse=True)
def _clock(monkeypatch):
    estimate = DisMotion.estimate

    def estimate_in_time(self, *views):
        now[0] += FLOW
        return estimate(self, *views)

    monkeypatch.setattr(DisMotion, "estimate", estimate_in_time)
    monkeypatch.setattr(fit, "time", SimpleNamespace(perf_counter=lambda: now[0], process_time=lambda: 0.0))


def logits(image):
    now[0] += FLOW
    return np.zeros((3, 9, 12), np.float32)


def slow(image):
    now[0] += 500 * FLOW
    return logits(image)


def frames(number):
    rng = np.random.default_rng(0)
    image = rng.integers(0, 255, (72, 96, 3), np.uint8)
    return [np.roll(image, at, axis=1) for at in range(number)]


def test_a_level_is_worth_what_the_network_costs():
    assert [choose_level(ratio) for ratio in (1, 124)] == ["dis", "dis"]
    assert [choose_level(ratio) for ratio in (126, 429)] == ["dis-medium", "dis-medium"]
    assert [choose_level(ratio) for ratio in (430, 1399)] == ["dis-fine", "dis-fine"]
    assert choose_level(5000) == "dis-finest"


def test_a_slow_network_gets_fine_motion_and_a_fast_one_does_not():
    frame = Frame(frames(1)[0])
    assert fit_motion(CallableRuntime(slow), frame).name == "dis-fine"
    assert fit_motion(CallableRuntime(logits), frame).name == "dis"


@pytest.mark.parametrize("mode", ["offline", "online", "realtime"])
def test_a_segmenter_fits_its_motion_on_the_first_frame(mode):
    segmenter = stmg.VideoSegmenter(slow, motion="auto")
    assert isinstance(segmenter.settings.motion, AutoMotion)
    results = list(segmenter.stream(frames(4), mode=mode))
    assert [result.index for result in results] == [0, 1, 2, 3]
    assert segmenter.settings.motion.name == "dis-fine"
    assert segmenter.online.view_width == 480


def test_no_frames_leave_it_open():
    segmenter = stmg.VideoSegmenter(logits, motion="auto")
    assert list(segmenter.stream([], mode="offline")) == []
    assert segmenter.settings.motion.name == "auto"


def test_motion_is_fitted_where_it_is_left_open_and_once():
    first = frames(1)[0]
    segmenter = stmg.VideoSegmenter(slow, motion="auto")
    assert (segmenter.needs_fit, segmenter.fit_motion(first)) == (True, True)
    assert (segmenter.needs_fit, segmenter.fit_motion(first)) == (False, False)
    assert segmenter.settings.motion.name == "dis-fine"
    assert not stmg.VideoSegmenter(slow, motion="codec").fit_motion(first)
