"""Rendered streets as a dataset: which seeds, and frames at any size."""

import cv2
import numpy as np
import pytest

from stmg.data.synthetic.dataset import RenderedVideo, open_streets
from stmg.errors import DataError

SIZE = (64, 96)


def test_streets_are_called_by_their_seeds():
    data = open_streets("street:5-6")
    assert [video.name for video in data.videos("train")] == ["street 5", "street 6"]
    assert not {video.seed for video in data.videos("val")} & {5, 6}
    for wrong in ("street:9-2", "street:5", "street:0-900000"):
        with pytest.raises(DataError, match="street:0-99"):
            open_streets(wrong)


@pytest.mark.parametrize(
    ("size", "interpolation"),
    [
        ((32, 48), cv2.INTER_AREA),
        ((128, 192), cv2.INTER_LINEAR),
        ((60, 300), cv2.INTER_LINEAR),  # lower, but with more pixels
        ((70, 40), cv2.INTER_AREA),  # higher, but with fewer
    ],
)
def test_images_that_shrink_are_averaged_and_others_interpolated(size, interpolation):
    video = RenderedVideo(3, 1, SIZE, every_label=True)
    expected = cv2.resize(video.image(0), size[::-1], interpolation=interpolation)
    assert np.array_equal(video.image(0, size), expected)
    assert video.truth(0, size).shape == size
    assert set(np.unique(video.truth(0, size))) <= set(np.unique(video.truth(0)))


def test_frames_count_as_labeled_now_and_then_or_always():
    assert list(RenderedVideo(3, 11, SIZE, every_label=False).labeled) == [0, 5, 10]
    assert len(RenderedVideo(3, 11, SIZE, every_label=True).labeled) == 11
