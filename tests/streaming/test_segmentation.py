"""Soft results: equal in every mode on computed frames, warped and blended on the others."""

from concurrent.futures import Future

import numpy as np
import pytest

from stmg.runtimes.callable import CallableRuntime
from stmg.segmenter import VideoSegmenter
from stmg.streaming.anchors import Anchor, compute_anchor
from stmg.streaming.blending import BlendInput, Side, blend_probability, blend_segmentation
from stmg.streaming.correction import halve_image
from stmg.streaming.flow import compose, warp
from stmg.streaming.motion import DisMotion, make_view
from stmg.streaming.realtime import RealtimeStream
from stmg.streaming.schedulers import FixedPeriod, Level
from stmg.streaming.segmentation import Segmentation, threshold_probability, warp_segmentation
from stmg.streaming.settings import Settings
from stmg.video.frames import Frame
from stmg.video.labels import IGNORE
from zoo import colors, panning, texture

SIZE = (48, 64)
MODES = ["offline", "online", "realtime"]


def mean(image):
    """A function of one channel of probabilities."""
    return image.astype(np.float32).mean(2)[None] / 255


def stream(mode, function=mean, threshold=0.4, **options):
    if mode != "realtime":
        options["scheduler"] = FixedPeriod(4, Level.CARRY)
    segmenter = VideoSegmenter(CallableRuntime(function, threshold=threshold), settings=Settings(fusion=0), **options)
    return list(segmenter.stream([Frame(image) for image in panning(9, step=3)], mode=mode))


@pytest.mark.parametrize("mode", MODES)
def test_labels_are_the_probability_thresholded_in_every_mode(mode):
    results = stream(mode)
    assert {result.level for result in results} == {Level.KEY, Level.CARRY}
    for result in results:
        assert result.probability.dtype == np.float32
        assert result.probability.shape == result.labels.shape
        assert np.array_equal(result.labels, result.probability > 0.4)
        error = np.abs(result.probability - mean(result.image)[0])
        assert np.median(error) < (1e-6 if result.level is Level.KEY else 0.02)


@pytest.mark.parametrize("mode", MODES)
def test_several_classes_have_none(mode):
    assert all(result.probability is None for result in stream(mode, colors, None))


@pytest.mark.parametrize("mode", MODES)
def test_what_a_caller_writes_on_a_result_is_not_shown_again(mode):
    schedulers = dict.fromkeys(("online", "offline"), FixedPeriod(4, Level.CARRY))
    settings = Settings(default_schedulers=schedulers, fusion=0)
    segmenter = VideoSegmenter(CallableRuntime(mean), settings=settings, motion="none")
    clean = [result.probability.copy() for result in segmenter.stream([texture(*SIZE)] * 9, mode=mode)]
    for result, before in zip(segmenter.stream([texture(*SIZE)] * 9, mode=mode), clean, strict=True):
        assert np.array_equal(result.probability, before)
        result.probability[:] = 7
        result.labels[:] = 7


def test_a_carried_frame_is_the_last_probability_warped_bilinearly():
    frames = [Frame(image) for image in panning(3, step=3)]
    segmenter = VideoSegmenter(CallableRuntime(mean), scheduler=FixedPeriod(9, Level.CARRY))
    results = [segmenter.step(frame) for frame in frames]
    motion, views = DisMotion(), [make_view(frame) for frame in frames]
    flow = None
    for before, now in ((0, 1), (1, 2)):
        flow = compose(flow, motion.estimate(views[before], views[now]))
    assert np.array_equal(results[2].probability, warp(mean(frames[0].image)[0], flow))


def test_labels_alone_are_warped_by_the_nearest_pixel():
    labels = np.arange(16, dtype=np.uint8).reshape(4, 4)
    flow = np.zeros((4, 4, 2), np.float32)
    flow[..., 0] = 0.4 / 4
    shown = warp_segmentation(Segmentation(labels), flow, 0.5)
    assert shown.probability is None
    assert np.array_equal(shown.labels, labels)


def side(value, image, distance=1):
    probability = np.full(SIZE, value, np.float32)
    return Side(Anchor(threshold_probability(probability, 0.5), None, halve_image(image)), None, distance)


def test_between_anchors_that_explain_a_frame_alike_the_nearer_weighs_more_by_the_root_of_the_distance():
    image = texture(*SIZE)
    blended = blend_probability(BlendInput(side(0.2, image, 1), side(0.8, image, 4), image))
    assert np.allclose(blended, (0.2 * 2 + 0.8) / 3, atol=1e-4)
    shown = blend_segmentation(BlendInput(side(0.2, image, 3), side(0.8, image, 1), image))
    assert (shown.labels == 1).all()


def test_the_anchor_that_does_not_explain_a_frame_counts_little():
    image, other = texture(*SIZE, seed=1), texture(*SIZE, seed=2)
    blended = blend_probability(BlendInput(side(0.0, other), side(1.0, image), image))
    assert np.median(blended) > 0.95


def test_both_sides_are_blended_where_their_labels_agree_too():
    image = texture(*SIZE)
    shown = blend_segmentation(BlendInput(side(0.6, image), side(0.9, image), image))
    assert np.allclose(shown.probability, 0.75, atol=1e-4)


def test_an_anchor_of_one_channel_holds_its_probability_and_threshold():
    image = texture(*SIZE)
    anchor = compute_anchor(CallableRuntime(mean, threshold=0.3), Frame(image))
    assert np.array_equal(anchor.probability, mean(image)[0])
    assert anchor.threshold == 0.3
    assert anchor.logits is None


def test_after_a_cut_to_another_size_there_is_no_foreground_until_the_network_has_answered():
    class Never:
        """An executor that is never done, after its first task."""

        def __init__(self):
            self.first = True

        def submit(self, function, *args):
            future = Future()
            if self.first:
                future.set_result(function(*args))
            self.first = False
            return future

    realtime = RealtimeStream(CallableRuntime(mean), Settings(), Never())
    realtime.step(Frame(texture(48, 64)))
    result = realtime.step(Frame(texture(32, 40)))
    assert result.stale
    assert (result.labels == IGNORE).all()
    assert result.probability.shape == (32, 40)
    assert not result.probability.any()


def test_fused_key_frames_average_the_channel():
    values = iter([0.2, 0.8])
    runtime = CallableRuntime(
        lambda image: np.full((1, *image.shape[:2]), next(values), np.float32), activation="probability"
    )
    segmenter = VideoSegmenter(runtime, scheduler="always-key", fusion=0.5)
    results = [segmenter.step(texture(*SIZE)) for _ in range(2)]
    assert np.allclose(results[0].probability, 0.2)
    assert results[1].probability.min() >= 0.2
