import numpy as np
import pytest
import torch

from stmg.errors import SettingsError
from stmg.gating.aggregation import NormalizeImage
from stmg.video.normalization import NORMALIZATIONS, Normalization, parse_normalization

IMAGES = np.random.default_rng(0).integers(0, 256, (2, 5, 7, 3), np.uint8)


def test_it_is_the_value_computed_by_hand():
    normalized = Normalization((0.5, 0.0, 0.0), (0.25, 1.0, 1 / 255)).apply(np.array([[[0, 255, 7]]], np.uint8))
    assert normalized.dtype == np.float32
    assert np.allclose(normalized, [[[-2, 1, 7]]])


@pytest.mark.parametrize("name", NORMALIZATIONS)
def test_numpy_and_pytorch_agree_to_the_bit(name):
    normalization = NORMALIZATIONS[name]
    ours = normalization.apply(IMAGES[0])
    theirs = NormalizeImage(normalization.mean, normalization.std)(torch.from_numpy(IMAGES))
    assert theirs.shape == (2, 3, 5, 7)
    assert theirs.is_contiguous(memory_format=torch.channels_last)
    assert np.array_equal(ours.transpose(2, 0, 1), theirs[0].numpy())


def test_it_is_no_part_of_a_checkpoint():
    assert not NormalizeImage((0.5,) * 3, (0.5,) * 3).state_dict()


def test_what_is_typed_becomes_a_normalization():
    assert parse_normalization("half") == Normalization((0.5,) * 3, (0.5,) * 3)
    assert parse_normalization("0.5,0.4,0.3/0.2,0.2,0.1") == Normalization((0.5, 0.4, 0.3), (0.2, 0.2, 0.1))
    for wrong in ("some", "1,1,1", "0,0,0/1,1,0", "0/1", "0,0,0/1,1,1/2,2,2"):
        with pytest.raises(SettingsError, match="a normalization is imagenet, none"):
            parse_normalization(wrong)


@pytest.mark.parametrize(("mean", "std"), [((0.5,), (1.0,) * 3), ((0.0,) * 3, (1.0, 1.0, 0.0))])
def test_what_is_no_normalization_is_refused(mean, std):
    with pytest.raises(SettingsError, match="three means and three stds above 0"):
        Normalization(mean, std)
