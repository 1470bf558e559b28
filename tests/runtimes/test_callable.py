import numpy as np
import pytest
import torch

from stmg.segmenter import VideoSegmenter
from zoo import colors, panning

SIZE = (96, 128)


def test_a_black_box_blends_at_a_smaller_scale():
    frames = panning(2, SIZE, seed=3)
    segmenter = VideoSegmenter(colors, scheduler="per-frame", partial_scale=0.5)
    result = list(segmenter.stream(frames))[1]
    assert (result.labels == frames[1].argmax(2)).mean() > 0.9


def test_a_black_box_may_give_labels_or_tensors():
    frames = panning(3, SIZE)
    for function in (lambda image: image.argmax(2), lambda image: torch.from_numpy(colors(image))[None]):
        result = VideoSegmenter(function).step(frames[0])
        assert np.array_equal(result.labels, frames[0].argmax(2))
        assert result.macs is None
    with pytest.raises(ValueError, match="nothing to blend"):
        list(VideoSegmenter(lambda image: image.argmax(2), scheduler="paper").stream(frames))


@pytest.mark.parametrize(
    "output",
    [np.zeros((5,)), np.full((3, 4, 4), np.nan), np.zeros((2, 3, 4, 4)), np.full((4, 4), 300)],
)
def test_a_black_box_that_gives_something_else_is_refused(output):
    with pytest.raises(ValueError, match=r"returns logits|not finite|labels are bytes"):
        VideoSegmenter(lambda image: output).step(panning(1, SIZE)[0])
