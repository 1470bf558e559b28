"""Correction: carried frames are corrected in every mode, computed frames stay unchanged."""

from functools import reduce
from itertools import pairwise

import numpy as np
import pytest

from stmg.errors import ModelError
from stmg.runtimes.callable import CallableRuntime
from stmg.segmenter import VideoSegmenter
from stmg.streaming import blending
from stmg.streaming.anchors import compute_anchor
from stmg.streaming.blending import BlendInput, Side, blend_labels, correct_between
from stmg.streaming.correction import (
    CorrectorReference,
    blend_corrector_input,
    correct,
    halve_image,
    make_reference,
    warp_corrector_input,
)
from stmg.streaming.cost import Cost
from stmg.streaming.flow import compose, invert
from stmg.streaming.motion import DisMotion, make_view
from stmg.streaming.schedulers import FixedPeriod, Level
from stmg.streaming.segmentation import Segmentation
from stmg.streaming.windows import MAX_UNCORRECTED as STRIDE
from stmg.streaming.windows import find_marks
from stmg.video.frames import Frame
from zoo import Painter, colors, panning, texture

SIZE = (96, 128)
CLASSES = 3


class Counted(CallableRuntime):
    """A function whose cost is known."""

    def cost(self, size, level, keep, scale, masked):
        return Cost(100 * (level is Level.KEY), 0, 0)


def test_online_every_second_carried_frame_is_corrected_and_computed_ones_are_not():
    painter, frames = Painter(), panning(9)
    options = {"scheduler": FixedPeriod(4, Level.CARRY), "fusion": 0}
    plain = list(VideoSegmenter(colors, **options).stream(frames, mode="online"))
    results = list(VideoSegmenter(colors, corrector=painter, **options).stream(frames, mode="online"))
    assert [result.index for result in results if result.corrected] == [2, 3, 6, 7]
    assert [result.macs for result in results[1:4]] == [0, 7, 0]
    for before, after in zip(plain, results, strict=True):
        assert before.level is after.level
        if after.index % 4 == 2:
            assert (after.labels[:, :60] == 2).all()
            assert np.array_equal(before.labels[:, 72:], after.labels[:, 72:])
            assert after.changed.shape == (12, 16)
        elif after.index % 4 < 2:  # computed, or warped from one that is
            assert np.array_equal(before.labels, after.labels)
    image, before, logits = painter.seen[0]
    assert image.shape == before.shape == (48, 64, 3)
    assert logits.shape == (12, 16, CLASSES)


@pytest.mark.parametrize("fusion", [0, 0.5])  # without it key frames are foreseen
@pytest.mark.parametrize("period", [2, 3, 4])
def test_each_run_of_the_corrector_is_counted_and_audits_run_it_seldom(period, fusion):
    painter, options = Painter(), {"scheduler": FixedPeriod(period, Level.CARRY), "fusion": fusion}
    results = list(VideoSegmenter(Counted(colors), corrector=painter, **options).stream(panning(41), mode="online"))
    assert 7 * len(painter.seen) == sum(result.macs % 100 for result in results)
    for_audits = [result for result in results if result.macs == 107]
    keys = sum(result.level is Level.KEY for result in results)
    assert len(for_audits) <= keys / 4
    assert bool(for_audits) == (period % 2 == 0)  # else the frame before was corrected, and is only warped


@pytest.mark.parametrize(("network", "number"), [(colors, 3), (lambda image: colors(image)[:1] / 255, 2)])
def test_a_corrector_of_other_classes_is_refused_where_only_a_run_of_the_network_shows(network, number):
    painter = Painter()
    painter.num_classes = 4
    with pytest.raises(ModelError, match=f"the corrector is for 4 classes, the network has {number}"):
        VideoSegmenter(network, corrector=painter).step(texture(*SIZE))


def test_a_frame_after_a_corrected_one_is_warped_from_it_with_its_mask():
    frames = [texture(*SIZE)] * 4
    options = {"scheduler": FixedPeriod(8, Level.CARRY), "motion": "none"}
    *_, corrected, after = VideoSegmenter(colors, corrector=Painter(), **options).stream(frames, mode="online")
    assert corrected.corrected
    assert after.corrected
    assert np.array_equal(corrected.labels, after.labels)
    assert np.array_equal(corrected.changed, after.changed)
    assert (corrected.macs, after.macs, after.anchor_distance) == (7, 0, 3)


def test_offline_some_frames_are_corrected_and_the_others_blended_from_them():
    every = FixedPeriod(2 * STRIDE, Level.CARRY)
    frames = [texture(*SIZE)] * (2 * STRIDE + 1)
    results = list(VideoSegmenter(colors, corrector=Painter(), scheduler=every).stream(frames, mode="offline"))
    assert [result.index for result in results if result.corrected] == [STRIDE]
    middle, anchor = results[STRIDE], results[0]
    assert (middle.labels[:, :60] == 2).all()
    assert (middle.macs, results[1].macs) == (7, 0)
    assert middle.changed.shape == (12, 16)
    repainted = middle.labels != anchor.labels
    near, far = (results[at].labels[repainted] == 2 for at in (STRIDE - 1, 1))
    assert near.mean() > 0.9  # as the corrected frame, which it is next to
    assert far.mean() < 0.1  # as the computed one


def test_a_corrected_frame_is_blended_from_both_anchors_as_by_hand():
    every, frames = FixedPeriod(2 * STRIDE, Level.CARRY), panning(2 * STRIDE + 1)
    results = list(VideoSegmenter(colors, corrector=Painter(), scheduler=every).stream(frames, mode="offline"))
    motion, views = DisMotion().for_offline(), [make_view(Frame(image)) for image in frames]
    back = [motion.estimate(*pair) for pair in pairwise(views)]
    to_left = reduce(compose, back[:STRIDE])
    to_right = reduce(compose, [invert(flow) for flow in back[: STRIDE - 1 : -1]])
    one, two = (compute_anchor(CallableRuntime(colors), Frame(frames[at]), Painter()) for at in (0, 2 * STRIDE))
    middle = correct_between(
        Painter(),
        BlendInput(Side(one, to_left, STRIDE), Side(two, to_right, STRIDE), frames[STRIDE]),
    )
    assert np.array_equal(results[STRIDE].labels, middle.labels)
    to_one = reduce(compose, back[: STRIDE - 2])
    to_middle = reduce(compose, [invert(flow) for flow in (back[STRIDE - 1], back[STRIDE - 2])])
    sides = Side(one, to_one, STRIDE - 2), Side(middle, to_middle, 2)
    assert np.array_equal(results[STRIDE - 2].labels, blend_labels(BlendInput(*sides, frames[STRIDE - 2])))


def test_how_well_the_anchors_explain_a_corrected_frame_is_computed_once_a_side(monkeypatch):
    seen, match_error = [], blending.match_error
    monkeypatch.setattr(blending, "match_error", lambda *images: seen.append(images[0]) or match_error(*images))
    frames = panning(9, step=3)
    left, right = (compute_anchor(CallableRuntime(colors), Frame(frames[at]), Painter()) for at in (0, 8))
    sides = [Side(left, None, 4), Side(right, None, 4)]
    assert correct_between(Painter(), BlendInput(*sides, frames[4])).segmentation.correction is not None
    assert [id(image) for image in seen] == [id(side.anchor.small) for side in sides]


@pytest.mark.parametrize(
    ("length", "stride", "marks"),
    [(1, 8, [0, 1]), (8, 8, [0, 8]), (9, 8, [0, 4, 9]), (20, 8, [0, 7, 13, 20]), (20, None, [0, 20])],
)
def test_marks_are_even(length, stride, marks):
    assert find_marks(length, stride) == marks


def test_realtime_corrects_what_is_older_than_its_frame():
    painter = Painter()
    results = list(VideoSegmenter(colors, corrector=painter).stream(panning(12), mode="realtime"))
    assert results[0].level is Level.KEY
    old = [result for result in results if result.anchor_distance]
    assert all((result.labels[:, :60] == 2).all() for result in old)
    assert len(painter.seen) == len(old)


def test_offline_does_without_one_that_is_no_help_between_two_computed_frames():
    painter = Painter(between=False)
    results = list(VideoSegmenter(colors, corrector=painter).stream(panning(9), mode="offline"))
    assert any(result.level is Level.CARRY for result in results)
    assert not painter.seen


def test_what_was_warped_stays_where_the_mask_is_weak():
    anchor = compute_anchor(CallableRuntime(colors), Frame(texture(*SIZE)), Painter())
    view = warp_corrector_input(anchor.reference, None, texture(*SIZE))
    corrected, _ = correct(Painter(0.05), view, anchor.segmentation, 0.5)
    assert corrected.labels is anchor.labels
    assert corrected.correction.max() == np.float32(0.05)


def test_a_foreground_is_corrected_softly():
    probability = np.full(SIZE, 0.2, np.float32)
    shown = Segmentation(np.zeros(SIZE, np.uint8), probability)
    reference = make_reference(halve_image(texture(*SIZE)), shown, None, 2)
    assert np.allclose(np.exp(reference.logits[:, :, 1]), 0.2)
    corrected = correct(Painter(), warp_corrector_input(reference, None, texture(*SIZE)), shown, 0.5)[0]
    assert corrected.probability[:, :56].min() > 0.9
    assert np.allclose(corrected.probability[:, 72:], 0.2)
    assert corrected.labels[:, :56].all()
    assert not corrected.labels[:, 72:].any()


def test_labels_alone_count_as_certain():
    labels = np.zeros(SIZE, np.uint8)
    labels[48:] = 2
    reference = make_reference(halve_image(texture(*SIZE)), Segmentation(labels), None, CLASSES)
    assert np.array_equal(reference.logits.argmax(2), labels[4::8, 4::8])


def test_what_has_no_label_is_no_class_and_stays_so():
    labels = np.full(SIZE, 255, np.uint8)
    labels[48:] = 1
    reference = make_reference(halve_image(texture(*SIZE)), Segmentation(labels), None, CLASSES)
    assert np.allclose(np.exp(reference.logits[:5]), 1 / CLASSES)
    corrected = correct(Painter(), warp_corrector_input(reference, None, texture(*SIZE)), Segmentation(labels), 0.5)[0]
    assert (corrected.labels[:48] == 255).all()
    assert (corrected.labels[48:, :60] == 2).all()


def test_logits_of_any_resolution_are_brought_to_the_grid():
    fine = np.log(np.random.default_rng(0).dirichlet(np.ones(CLASSES), SIZE).astype(np.float32))
    reference = make_reference(halve_image(texture(*SIZE)), Segmentation(np.zeros(SIZE, np.uint8)), fine, CLASSES)
    assert reference.logits.shape == (12, 16, CLASSES)


def test_one_pass_sees_both_sides():
    image = texture(*SIZE)
    black, white = (np.full((48, 64, 3), value, np.uint8) for value in (0, 200))
    ones, twos = (np.log(np.full((12, 16, CLASSES), share, np.float32)) for share in (0.2, 0.4))
    share = np.full((48, 64), 0.25, np.float32)
    sides = (CorrectorReference(black, ones), None), (CorrectorReference(white, twos), None)
    _, before, logits = blend_corrector_input(sides, share, halve_image(image))
    assert np.allclose(before, 150, atol=1)
    assert np.allclose(np.exp(logits), 0.35)


@pytest.mark.parametrize("mode", ["offline", "online", "realtime"])
@pytest.mark.parametrize("size", [(1, 7), (3, 5), (15, 40)])
def test_a_frame_too_small_to_be_corrected_is_carried_all_the_same(mode, size):
    every, painter = FixedPeriod(3, Level.CARRY), Painter()
    frames = panning(5, size)
    segmenter = VideoSegmenter(colors, corrector=painter, default_schedulers={"online": every, "offline": every})
    assert [result.labels.shape for result in segmenter.stream(frames, mode=mode)] == [size] * 5
    assert not painter.seen
