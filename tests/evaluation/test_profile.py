"""How much of a video repeats."""

import numpy as np
import pytest

from stmg import VideoSegmenter
from stmg.errors import VideoError
from stmg.evaluation.profile import choose_budget, describe_gain, profile
from stmg.evaluation.results import BudgetOutcome
from stmg.streaming.schedulers import DriftBudget

SIZE = (48, 64)


def random_frames(number):
    random = np.random.default_rng(0)
    return [random.integers(0, 255, (*SIZE, 3), np.uint8) for _ in range(number)]


def test_a_still_video_repeats_and_noise_does_not(runtime):
    segmenter = VideoSegmenter(runtime, scheduler=DriftBudget())
    still = [random_frames(1)[0].copy() for _ in range(8)]
    calm = profile(still, segmenter, max_changed=0.01)
    wild = profile(random_frames(8), segmenter, max_changed=0.0)
    assert max(calm.distortion[1:]) < 0.01 < 0.3 < np.median(wild.distortion[1:])
    assert (calm.best.key_share, calm.best.changed) == (1 / 8, 0)
    assert calm.carry_ms is not None
    assert wild.budgets[0].key_share == 1
    assert "smaller network" in wild.verdict
    assert (calm.source, calm.frames, calm.model) == ("frames", 8, "segmenter")


def test_no_more_frames_are_read_than_wanted(runtime):
    done = []
    segmenter = VideoSegmenter(runtime)
    result = profile(iter(random_frames(9)), segmenter, frames=3, on_frame=lambda *state: done.append(state))
    assert result.frames == 3
    assert done == [(1, None), (2, None), (3, None)]
    with pytest.raises(VideoError, match="two frames"):
        profile(random_frames(1), segmenter)


def outcome(budget, changed, gain):
    return BudgetOutcome(budget=budget, key_share=0.5, changed=changed, gain=gain)


def test_the_fastest_that_changes_little_enough_is_best():
    budgets = [outcome(0.1, 0.01, 1.2), outcome(0.2, 0.02, 1.6), outcome(0.3, 0.05, 3.0)]
    assert choose_budget(budgets, 0.025) == budgets[1]
    assert choose_budget(budgets, 0.001) is None


@pytest.mark.parametrize(("gain", "verdict"), [(1.1, "Not worth it"), (1.2, "A little"), (1.5, "Worth it")])
def test_the_verdict_follows_from_the_gain(gain, verdict):
    assert describe_gain(outcome(0.2, 0.02, gain), 0.025).startswith(verdict)
    assert describe_gain(None, 0.025).startswith("Not worth it")
