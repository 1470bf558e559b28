import time

import numpy as np
import pytest
import torch

from stmg.runtimes.callable import CallableRuntime
from stmg.segmenter import VideoSegmenter
from stmg.streaming.offline import Offline
from stmg.streaming.schedulers import FixedPeriod, Level
from stmg.streaming.settings import Settings
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


def test_a_function_is_called_once_at_a_time_and_may_reuse_its_output():
    inside, most, out = [0], [0], np.zeros((3, *SIZE), np.float32)

    def function(image):
        inside[0] += 1
        most[0] = max(most[0], inside[0])
        time.sleep(0.005)
        out[:] = colors(image)
        inside[0] -= 1
        return out

    frames = panning(9, SIZE)
    every = FixedPeriod(1, Level.CARRY)
    results = list(Offline(CallableRuntime(function), Settings(scheduler=every), workers=3).stream(frames))
    assert most == [1]
    for frame, result in zip(frames, results, strict=True):
        assert np.array_equal(result.labels, frame.argmax(2))
