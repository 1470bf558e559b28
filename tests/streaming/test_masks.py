"""Masks: each ablation changes only what it names; the size of partial frames fits the maps."""

import numpy as np
import pytest

from stmg.errors import SettingsError
from stmg.streaming.masks import Masking, Masks, partial_area, partial_size

MASKS = Masks((True, False, False, True, False), np.random.default_rng(0).random((6, 8)).astype(np.float32))


def test_a_gain_of_one_leaves_masks_as_generated():
    used = Masking(gain=1)(MASKS, 3)
    assert used.keep == MASKS.keep
    assert np.array_equal(used.changed, MASKS.changed)


def test_the_generated_mask_is_multiplied_up_to_one():
    generated = Masks((), np.array([[0.0, 0.4, 0.6, 0.9]], np.float32))
    assert Masking()(generated, 0).changed == pytest.approx(np.array([[0, 0.6, 0.9, 1]]))
    assert Masking(gain=2)(generated, 0).changed == pytest.approx(np.array([[0, 0.8, 1, 1]]))
    assert generated.changed[0, 3] == np.float32(0.9)


def test_ablations_of_the_spatial_mask_keep_its_mean():
    own = Masking()(MASKS, 0).changed
    uniform = Masking(spatial="uniform")(MASKS, 0).changed
    assert np.ptp(uniform) == 0
    assert uniform.mean() == pytest.approx(own.mean())
    shuffled = Masking(spatial="random")(MASKS, 0).changed
    assert not np.array_equal(shuffled, own)
    assert np.array_equal(np.sort(shuffled, axis=None), np.sort(own, axis=None))


def test_constant_and_fresh_masks():
    assert np.all(Masking(spatial=0.8)(MASKS, 0).changed == np.float32(0.8))
    assert np.all(Masking(spatial="fresh")(MASKS, 0).changed == 1)


def test_random_pruning_prunes_as_many():
    patterns = [Masking(pruning="random")(MASKS, number).keep for number in range(30)]
    assert {sum(keep) for keep in patterns} == {2}
    assert len(set(patterns)) > 1
    assert Masking(pruning="none")(MASKS, 0).keep == (True,) * 5
    assert sum(Masking(pruning=0.4)(MASKS, 0).keep) == 3


def test_what_is_random_depends_on_seed_and_frame_alone():
    one, two = Masking(pruning=0.5, spatial="random"), Masking(pruning=0.5, spatial="random", seed=1)
    assert one(MASKS, 4).keep == one(MASKS, 4).keep
    assert np.array_equal(one(MASKS, 4).changed, one(MASKS, 4).changed)
    assert not np.array_equal(one(MASKS, 4).changed, two(MASKS, 4).changed)


def test_other_values_are_refused_with_those_allowed():
    with pytest.raises(SettingsError, match="adaptive, uniform, random, fresh"):
        Masking(spatial="learned")
    with pytest.raises(SettingsError, match="0 to 1"):
        Masking(pruning=1.5)
    for gain in (0, -1, "much", float("nan"), float("inf")):
        with pytest.raises(SettingsError, match="gain of a mask is above 0"):
            Masking(gain=gain)


@pytest.mark.parametrize(
    ("size", "scale", "smaller"),
    [
        ((360, 480), 1.0, (360, 480)),
        ((360, 480), 0.8, (288, 384)),
        ((360, 480), 0.6875, (240, 336)),
        ((64, 96), 0.1, (16, 16)),
        ((10, 40), 0.5, (10, 16)),
    ],
)
def test_sides_of_partial_frames_are_multiples_of_16_where_the_frame_is_not_smaller(size, scale, smaller):
    assert partial_size(size, scale) == smaller
    assert partial_area(size, scale) == pytest.approx(smaller[0] * smaller[1] / (size[0] * size[1]))
