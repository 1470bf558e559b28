import time

import numpy as np
import pytest
import torch

from stmg.errors import ModelError
from stmg.runtimes.callable import CallableRuntime
from stmg.segmenter import VideoSegmenter
from stmg.streaming.logits import put_channels_first
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


@pytest.mark.parametrize("size", [SIZE, (64, 64), (90, 160), (96, 97)])
@pytest.mark.parametrize("stride", [1, 4, 8])
def test_channels_of_a_function_may_come_last(size, stride):
    frame = panning(1, size)[0]

    def first(image):
        return np.ascontiguousarray(colors(image)[:, ::stride, ::stride])

    expected = VideoSegmenter(first).step(frame).labels
    for function in (
        lambda image: first(image).transpose(1, 2, 0),
        lambda image: first(image).transpose(1, 2, 0)[None],
    ):
        assert np.array_equal(VideoSegmenter(function).step(frame).labels, expected)


@pytest.mark.parametrize(
    ("shape", "image", "channels"),
    [
        ((54, 96, 19), (54, 96), 19),
        ((19, 54, 96), (54, 96), 19),
        ((150, 128, 128), (720, 1280), 150),  # a network for squares
        ((45, 80, 80), (720, 1280), 45),
        ((128, 128, 21), (720, 1280), 21),
        ((19, 256, 320), (720, 1280), 19),
        ((256, 320, 19), (720, 1280), 19),
        ((96, 96, 96), (96, 96), 96),
        ((80, 45, 80), (720, 1280), 80),
        ((1, 7, 9), (720, 1280), 1),
    ],
)
def test_the_axis_of_the_channels_follows_from_the_size_of_the_image(shape, image, channels):
    assert len(put_channels_first(np.zeros(shape, np.float32), image)) == channels


def test_logits_whose_axes_cannot_be_identified_are_refused():
    with pytest.raises(ModelError, match=r"\(C, h, w\); got \(2, 30, 3\) for an image of 96x128"):
        VideoSegmenter(lambda image: np.zeros((2, 30, 3), np.float32)).step(panning(1, SIZE)[0])


@pytest.mark.parametrize("mode", ["offline", "online", "realtime"])
@pytest.mark.parametrize("form", [lambda mask: mask, lambda mask: mask[None], lambda mask: mask[:, :, None]])
def test_a_mask_of_booleans_is_foreground(mode, form):
    frames = panning(6, SIZE)
    segmenter = VideoSegmenter(lambda image: form(image[:, :, 0] > 100), motion="none")
    for frame, result in zip(frames, segmenter.stream(frames, mode=mode), strict=True):
        assert result.probability is not None
        if result.computed and mode != "realtime":
            assert np.array_equal(result.labels, frame[:, :, 0] > 100)


def test_masks_of_several_objects_are_no_foreground():
    with pytest.raises(ModelError, match=r"one mask \(H, W\) as booleans; got \(3, 96, 128\)"):
        VideoSegmenter(lambda image: image.transpose(2, 0, 1) > 100).step(panning(1, SIZE)[0])


@pytest.mark.parametrize("dtype", [np.uint8, np.int64])
def test_labels_may_have_axes_of_one(dtype):
    frame = panning(1, SIZE)[0]
    labels = frame.argmax(2)
    for given in (labels, labels[None], labels[:, :, None], labels[None, None], labels[None, :, :, None]):
        result = VideoSegmenter(lambda _, given=given: given.astype(dtype)).step(frame)
        assert np.array_equal(result.labels, labels)
