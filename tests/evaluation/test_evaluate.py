"""Evaluation of a stream beside its base network."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch

import stmg
from stmg import VideoSegmenter
from stmg.data.dataset import Dataset
from stmg.data.synthetic.scene import RenderedVideo
from stmg.errors import DataError, SettingsError
from stmg.evaluation.accuracy import ConfusionMatrix
from stmg.evaluation.evaluate import evaluate
from stmg.evaluation.measure import measure_stream
from stmg.gating.accelerate import accelerate
from stmg.models.card import Card
from stmg.networks import build
from stmg.streaming.cost import Cost
from stmg.streaming.schedulers import FixedPeriod, Level
from zoo import colors

SIZE = (48, 64)
PNG = b"\x89PNG"


class Unlabeled(RenderedVideo):
    labeled = ()

    def truth(self, index, size=None):
        return None


@dataclass(frozen=True)
class Idle:
    """A corrector that changes nothing."""

    num_classes: int
    between: bool = True

    def correct(self, image, before, logits):
        return logits, np.zeros(logits.shape[:2], np.float32)

    def cost(self, size):
        return Cost()


def test_the_base_agrees_with_itself_and_a_stream_is_measured_as_a_stream(dataset, runtime):
    segmenter = VideoSegmenter(runtime, scheduler=FixedPeriod(3, Level.CARRY))
    result = evaluate(segmenter, dataset, size=SIZE, name="mine")
    base, stream = result.base, result.stream
    assert (result.model, result.split, result.size, result.command) == ("mine", "val", SIZE, "")
    assert base.agreement_pixels == 100
    assert stream.agreement_pixels < 100
    assert [score.distance for score in stream.by_distance] == [0, 1, 2]
    shares = {each.level: each.share for each in stream.levels}
    assert shares == {Level.KEY: pytest.approx(33.33), Level.PARTIAL: 0, Level.CARRY: pytest.approx(66.67)}
    alone = measure_stream(segmenter, dataset, "val", SIZE)
    assert stream.miou == pytest.approx(alone.miou, abs=1e-3)
    assert base.cost.macs == runtime.cost(SIZE, Level.KEY, (), 1.0, masked=False).macs
    assert base.cost.macs_without_head < base.cost.macs
    assert stream.cost.macs == pytest.approx(base.cost.macs / 3, abs=1)
    assert [frame.level for frame in result.frames] == 4 * [Level.KEY, Level.CARRY, Level.CARRY]
    assert sum(result.motion.values()) == 12


def test_modes_are_measured_side_by_side_and_alone_alike(dataset, runtime):
    each = {"online": FixedPeriod(3, Level.CARRY), "offline": FixedPeriod(4, Level.CARRY)}
    segmenter = VideoSegmenter(runtime, default_schedulers=each)
    both = evaluate(segmenter, dataset, size=SIZE)
    assert [row.way.mode for row in both.modes] == ["online", "offline"]
    assert both.stream == both.mode("online")
    for mode in ("online", "offline"):
        alone = evaluate(segmenter, dataset, size=SIZE, mode=mode)
        assert alone.modes == (both.mode(mode),)
        assert alone.base == both.base


def test_offline_is_the_stream_of_each_video(dataset, runtime):
    segmenter = VideoSegmenter(runtime, scheduler=FixedPeriod(4, Level.CARRY))
    mode = evaluate(segmenter, dataset, size=SIZE).mode("offline")
    counts, distances = ConfusionMatrix(dataset.num_classes), []
    for video in dataset.videos("val"):
        images = [video.image(index, SIZE) for index in range(len(video))]
        for index, result in enumerate(segmenter.stream(images, mode="offline")):
            counts.add(result.labels, video.truth(index, SIZE))
            distances.append(result.anchor_distance)
    assert distances == 2 * [0, 1, 2, 1, 0, 0]
    assert mode.miou == pytest.approx(100 * counts.mean_iou(), abs=1e-3)
    assert mode.network_share == 50
    assert mode.mean_distance == pytest.approx(np.mean(distances), abs=1e-3)
    assert [(each.distance, each.share) for each in mode.by_distance] == [(0, 50), (1, 33.33), (2, 16.67)]
    anchors = mode.by_distance[0]
    assert anchors.miou == anchors.base_miou  # they are the base network's
    assert mode.settings == "offline fixed (period 4, between carry), motion dis"


def test_realtime_is_simulated_with_a_network_of_so_many_intervals(dataset, runtime):
    result = evaluate(VideoSegmenter(runtime), dataset, size=SIZE, mode="realtime", network_intervals=[1, 3])
    assert [(mode.way.intervals, mode.way.kind) for mode in result.modes] == [
        (1, "realtime"),
        (1, "copied-labels"),
        (3, "realtime"),
        (3, "copied-labels"),
    ]
    one, copied_one, three, copied_three = result.modes
    # Six frames: the first is waited for, the second is given to the network at once, and answered intervals later.
    assert [each.distance for each in copied_one.by_distance] == [0, 1]
    assert [(each.distance, each.share) for each in copied_three.by_distance] == [
        (0, 16.67),
        (1, 16.67),
        (2, 16.67),
        (3, 33.33),
        (4, 16.67),
    ]
    assert copied_three.network_share == 50  # frames 0, 1 and 4
    assert copied_three.cost.macs == pytest.approx(result.base.cost.macs / 2, abs=1)
    assert three.agreement_pixels != copied_three.agreement_pixels
    assert one.mean_distance <= three.mean_distance
    assert {mode.stale_share for mode in result.modes} == {0}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mode": "fast"}, "mode is one of offline, online, realtime; got 'fast'"),
        ({"network_intervals": [1]}, "network_intervals are for realtime; mode is not given"),
        ({"mode": "realtime", "network_intervals": [0]}, "whole numbers from 1; got 0"),
    ],
)
def test_modes_that_make_no_sense_are_refused(dataset, runtime, options, message):
    with pytest.raises(SettingsError, match=message):
        evaluate(VideoSegmenter(runtime), dataset, size=SIZE, **options)


def test_the_first_frames_and_the_masks_are_pictured(dataset, runtime):
    result = evaluate(VideoSegmenter(runtime, scheduler=FixedPeriod(3)), dataset, size=SIZE)
    assert [picture.file for picture in result.pictures] == ["strip.png", "masks.png"]
    assert all(picture.png.startswith(PNG) for picture in result.pictures)
    assert "Frame, spatial mask, and where" in result.pictures[1].caption


@pytest.mark.parametrize(
    ("mode", "between", "mask"),
    [
        # Frames next to a computed one are not corrected there.
        ("online", True, "what the flow leaves unexplained"),
        ("offline", True, "what the flow leaves unexplained"),
        ("realtime", False, "the corrector's mask"),
    ],
)
def test_a_mask_is_called_by_what_made_it(dataset, runtime, mode, between, mask):
    every_third = FixedPeriod(3, Level.CARRY)
    plain = VideoSegmenter(runtime, scheduler=None if mode == "realtime" else every_third)
    corrected = plain.another(corrector=Idle(dataset.num_classes, between))
    for segmenter, expected in ((plain, "what the flow leaves unexplained"), (corrected, mask)):
        pictures = evaluate(segmenter, dataset, size=SIZE, mode=mode).pictures
        assert f"Frame, {expected}, and where" in pictures[1].caption


def test_partial_frames_keep_their_spatial_mask_beside_a_corrector(dataset, runtime):
    segmenter = VideoSegmenter(runtime, scheduler=FixedPeriod(3), corrector=Idle(dataset.num_classes))
    assert "Frame, spatial mask, and where" in evaluate(segmenter, dataset, size=SIZE).pictures[1].caption


def test_the_callers_stream_is_not_disturbed(dataset, runtime, frames):
    segmenter = VideoSegmenter(runtime, scheduler=FixedPeriod(5, Level.CARRY))
    segmenter.step(frames[0])
    evaluate(segmenter, dataset, size=SIZE, limit=2)
    assert segmenter.step(frames[1]).level is Level.CARRY


def test_without_labels_there_is_agreement_and_no_accuracy(runtime):
    videos = (Unlabeled(3, 4, SIZE, every_label=True),)
    dataset = Dataset("drive", (), np.zeros((0, 3), np.uint8), {"all": videos})
    segmenter = VideoSegmenter(runtime, scheduler=FixedPeriod(2, Level.CARRY))
    result = evaluate(segmenter, dataset, size=SIZE, paper_protocol=True)
    assert (result.stream.miou, result.stream.boundary_iou, result.truth_consistency) == (None, None, None)
    assert 0 < result.stream.agreement_pixels <= 100
    assert len(result.stream.classes) == 11  # the network's own
    assert result.paper_protocol is None


def test_the_papers_protocol_scores_every_labeled_frame_after_the_one_before(dataset, runtime):
    pairs = evaluate(VideoSegmenter(runtime), dataset, size=SIZE, paper_protocol=True).paper_protocol
    assert (pairs.frames, pairs.level) == (10, Level.PARTIAL)
    assert pairs.base_miou != pairs.miou
    assert evaluate(VideoSegmenter(runtime), dataset, size=SIZE).paper_protocol is None
    three = replace(dataset, class_names=("red", "green", "blue"), palette=dataset.palette[:3])
    pairs = evaluate(VideoSegmenter(colors), three, size=SIZE, limit=3, paper_protocol=True).paper_protocol
    assert (pairs.frames, pairs.level) == (4, Level.CARRY)  # a function has no mask generator


def test_the_papers_protocol_is_the_stream_of_pairs(dataset, runtime):
    """On videos of two frames the pairs are the stream itself."""
    segmenter = VideoSegmenter(runtime, scheduler=FixedPeriod(2), fusion=0.0)
    result = evaluate(segmenter, dataset, size=SIZE, limit=2, paper_protocol=True)
    later = next(score for score in result.stream.by_distance if score.distance == 1)
    assert result.paper_protocol.miou == later.miou
    assert result.paper_protocol.frames == 2


def test_other_classes_are_refused(dataset, runtime):
    with pytest.raises(DataError, match=r"segmenter has 3 classes, streets has 11"):
        evaluate(VideoSegmenter(colors), dataset, size=SIZE)
    named = ("Sky", "House", *dataset.class_names[2:])
    with pytest.raises(DataError, match=r"class names differ: 'House' in segmenter, 'Building' in streets"):
        evaluate(VideoSegmenter(runtime, class_names=named), dataset, size=SIZE)
    with pytest.raises(DataError, match="no split 'test'"):
        evaluate(VideoSegmenter(runtime), dataset, size=SIZE, split="test")


def test_an_interruption_leaves_the_frames_that_are_done(dataset, runtime):
    def stop_after(number):
        seen = []

        def on_frame(result):
            seen.append(result)
            if len(seen) == number:
                raise KeyboardInterrupt

        return on_frame

    result = evaluate(VideoSegmenter(runtime), dataset, size=SIZE, paper_protocol=True, on_frame=stop_after(4))
    assert result.interrupted
    assert (result.stream.frames, len(result.frames), result.paper_protocol) == (4, 4, None)
    assert {mode.frames for mode in result.modes} == {result.base.frames} == {4}  # all of the same frames


def test_a_model_may_be_named():
    result = evaluate("small-streets", "street:0-0", size=SIZE, limit=2)
    assert (result.model, result.size, result.stream.frames) == ("small-streets", SIZE, 8)
    assert result.base.miou > 0


def test_a_model_may_be_a_path(dataset, runtime, tmp_path):
    card = Card("small", dataset.num_classes, SIZE, class_names=dataset.class_names)
    stmg.save(accelerate(build("small", dataset.num_classes), torch.zeros(1, 3, *SIZE)), tmp_path / "model", card)
    result = stmg.evaluate(model=tmp_path / "model", data=dataset, limit=2)
    assert (result.model, result.size) == (str(tmp_path / "model"), SIZE)


def test_a_limit_on_the_change_steers_the_stream_and_not_the_base(runtime, dataset):
    result = evaluate(VideoSegmenter(runtime, max_change=0.02), dataset, size=SIZE, paper_protocol=True)
    assert result.base == evaluate(VideoSegmenter(runtime), dataset, size=SIZE).base
