"""Working size: a stream computes on small frames and returns results at full size, in every mode."""

from __future__ import annotations

import time
import weakref

import numpy as np
import pytest

import stmg
from clips import clip
from stmg.streaming import working_size
from stmg.streaming.working_size import fit_size, shrink
from stmg.video.frames import Frame, resize_image
from stmg.video.labels import resize_labels
from zoo import panning

SIZE = (48, 64)


def test_a_fitted_size_has_the_models_area_and_the_shape_of_the_source():
    height, width = fit_size((360, 480), (720, 1280))
    assert (height % 8, width % 8) == (0, 0)
    assert height * width == pytest.approx(360 * 480, rel=0.03)
    assert width / height == pytest.approx(16 / 9, rel=0.03)
    assert fit_size((360, 480), (720, 960)) == (360, 480)


def test_no_frame_is_made_larger():
    assert fit_size((360, 480), (360, 480)) is None
    assert fit_size((360, 480), (200, 300)) is None


def bright(image):
    """Two classes by the brightness of a pixel; frames must come at the working size."""
    assert image.shape[:2] == SIZE
    gray = image.mean(2).astype(np.float32)
    return np.stack((127 - gray, gray - 127))


@pytest.mark.parametrize("mode", ["offline", "online", "realtime"])
def test_results_have_the_size_of_the_source_and_the_labels_of_the_small_stream(mode):
    frames = list(panning(9))
    options = {"scheduler": "always-key"} if mode != "realtime" else {}
    segmenter = stmg.VideoSegmenter(bright, size=SIZE, **options)
    results = list(segmenter.stream(frames, mode=mode))
    assert [result.index for result in results] == list(range(9))
    for frame, result in zip(frames, results, strict=True):
        assert np.array_equal(result.image, frame)
        assert result.labels.shape == frame.shape[:2]
        assert result.plot().shape == frame.shape
        if mode != "realtime" or result.index == 0:
            small = (resize_image(frame, SIZE).mean(2) > 127).astype(np.uint8)
            assert (result.labels == resize_labels(small, frame.shape[:2])).mean() > 0.999


def test_frames_given_one_by_one_are_resized_too():
    frames = list(panning(3))
    segmenter = stmg.VideoSegmenter(bright, size=SIZE)
    for frame in frames:
        result = segmenter.step(frame)
        assert result.labels.shape == frame.shape[:2]
        assert np.array_equal(result.image, frame)


@pytest.mark.parametrize("mode", ["offline", "online", "realtime"])
def test_a_large_video_is_computed_at_the_size_of_the_model_in_its_own_shape(tmp_path, mode):
    sizes = set()

    def dark(image):
        sizes.add(image.shape[:2])
        return np.zeros((2, 8, 8), np.float32)

    path = clip(tmp_path / "large.mp4", 6, size=(240, 480))
    segmenter = stmg.VideoSegmenter(dark, model_size=(48, 96))
    assert {result.labels.shape for result in segmenter.stream(path, mode=mode)} == {(240, 480)}
    assert sizes == {(48, 96)}
    list(segmenter.another(model_size=None).stream(path, mode=mode))
    list(segmenter.another(size=(64, 64)).stream(path, mode=mode))
    list(segmenter.stream(panning(2, size=(120, 120)), mode=mode))
    assert sizes == {(48, 96), (240, 480), (64, 64)}
    sizes.clear()
    segmenter.step(panning(1, size=(240, 480))[0])  # as in a stream of the file
    assert sizes == {(48, 96)}


@pytest.mark.parametrize("mode", ["offline", "online", "realtime"])
def test_latency_covers_the_resizing(mode, monkeypatch):
    frames = list(panning(3))
    for name in ("shrink", "resize_labels"):
        monkeypatch.setattr(working_size, name, slowly(getattr(working_size, name)))
    results = stmg.VideoSegmenter(bright, size=SIZE).stream(frames, mode=mode)
    assert min(result.latency_ms for result in results) > 60


def slowly(function):
    def run(*args):
        time.sleep(0.03)
        return function(*args)

    return run


@pytest.mark.parametrize("mode", ["offline", "realtime"])
def test_frames_may_come_in_one_buffer(mode):
    frames = panning(8)
    buffer = np.empty_like(frames[0])

    def reused():
        for frame in frames:
            buffer[:] = frame
            yield buffer

    segmenter = stmg.VideoSegmenter(lambda image: np.zeros((2, 8, 8), np.float32))
    for frame, result in zip(frames, segmenter.stream(reused(), mode=mode), strict=True):
        assert np.array_equal(result.image, frame)


def test_a_size_that_is_none_is_refused():
    with pytest.raises(stmg.SettingsError, match="size is a height and a width"):
        stmg.VideoSegmenter(bright, size=(0, 4))


def test_frames_of_any_size_are_averaged_to_the_working_size():
    image = np.zeros((99, 260, 3), np.uint8)
    image[:, 130:] = 200
    small = shrink(Frame(image, 3, 0.5), (24, 32))
    assert (small.size, small.index, small.time) == ((24, 32), 3, 0.5)
    assert small.image[0, 0].tolist() == [0, 0, 0]
    assert small.image[-1, -1].tolist() == [200, 200, 200]
    assert small.image.mean() == pytest.approx(100, abs=1)


def test_a_result_keeps_its_frame_at_one_size_alone():
    """Whoever keeps results should not pay for the frames that they were computed on."""
    images = []

    def watched(image):
        images.append(weakref.ref(image))
        return bright(image)

    result = stmg.VideoSegmenter(watched, size=SIZE).step(panning(1)[0])
    assert result.cost is None
    assert images[0]() is None
