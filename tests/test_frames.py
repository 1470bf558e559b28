import av
import numpy as np
import pytest
import torch

from stmg.frames import Frame, as_frame
from zoo import texture

IMAGE = texture(24, 32)


def test_numpy_torch_and_pyav_give_the_same_picture():
    pyav = av.VideoFrame.from_ndarray(IMAGE, format="rgb24")
    for value in (IMAGE, torch.from_numpy(IMAGE), torch.from_numpy(IMAGE).permute(2, 0, 1), pyav, Frame(IMAGE)):
        assert np.array_equal(as_frame(value).image, IMAGE)


def test_grey_is_repeated_alpha_dropped_and_sixteen_bits_shortened():
    grey = IMAGE[:, :, 0]
    for value in (grey, grey[:, :, None], Frame(grey)):
        assert np.array_equal(as_frame(value).image, np.stack([grey] * 3, axis=-1))
    with_alpha = np.dstack([IMAGE, grey])
    assert np.array_equal(as_frame(with_alpha).image, IMAGE)
    assert np.array_equal(as_frame(Frame(with_alpha, 3)).image, IMAGE)
    assert np.array_equal(as_frame(IMAGE.astype(np.uint16) * 257).image, IMAGE)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (IMAGE.astype(np.float32) / 255, "uint8 values from 0 to 255"),
        (IMAGE.astype(np.int64), "uint8"),
        (np.zeros((4, 4, 2), np.uint8), r"shape \(H, W, 3\)"),
        (np.zeros((2, 4, 4, 3), np.uint8), r"shape \(H, W, 3\)"),
        (np.zeros((0, 4, 3), np.uint8), "at least one pixel"),
    ],
)
def test_other_arrays_are_refused_with_the_reason(value, reason):
    with pytest.raises(ValueError, match=reason):
        as_frame(value)


def test_other_things_are_refused_by_type():
    with pytest.raises(TypeError, match="not str"):
        as_frame("frame.png")
