"""Masks: the ablations change what they name and nothing else."""

import numpy as np
import pytest

from stmg.errors import SettingsError
from stmg.streaming.masks import Masking, Masks

MASKS = Masks((True, False, False, True, False), np.random.default_rng(0).random((6, 8)).astype(np.float32))


def test_by_default_masks_are_as_generated():
    used = Masking()(MASKS, 3)
    assert used.keep == MASKS.keep
    assert used.changed is MASKS.changed


def test_ablations_of_the_spatial_mask_keep_its_mean():
    uniform = Masking(spatial="uniform")(MASKS, 0).changed
    assert np.ptp(uniform) == 0
    assert uniform.mean() == pytest.approx(MASKS.changed.mean())
    shuffled = Masking(spatial="random")(MASKS, 0).changed
    assert not np.array_equal(shuffled, MASKS.changed)
    assert np.array_equal(np.sort(shuffled, axis=None), np.sort(MASKS.changed, axis=None))


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
