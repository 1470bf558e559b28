"""Correction: carried frames are mended in every mode, computed ones are left alone."""

import numpy as np
import pytest

from stmg.runtimes.callable import CallableRuntime
from stmg.segmenter import VideoSegmenter
from stmg.streaming.anchors import compute_anchor
from stmg.streaming.correction import AnchorEvidence, correct, make_evidence, view_blended, view_warped
from stmg.streaming.cost import Cost
from stmg.streaming.foreground import Segmentation
from stmg.streaming.schedulers import FixedPeriod, Level
from stmg.video.frames import Frame
from zoo import colors, panning, texture

SIZE = (96, 128)
CLASSES = 3


class Painter:
    """A corrector that says class 2 in the left half, and nothing in the right."""

    num_classes = CLASSES

    def __init__(self, strength=1.0, *, between=True):
        self.strength, self.between, self.seen = strength, between, []

    def correct(self, image, before, logits):
        self.seen.append((image, before, logits))
        mask = np.zeros(logits.shape[:2], np.float32)
        mask[:, : mask.shape[1] // 2] = self.strength
        new = logits.copy()
        new[mask > 0] = np.eye(logits.shape[2], dtype=np.float32)[logits.shape[2] - 1] * 9
        return new, mask

    def cost(self, size):
        return Cost(macs=7, params=2)


@pytest.mark.parametrize("mode", ["offline", "online"])
def test_carried_frames_are_corrected_and_computed_ones_are_not(mode):
    painter, frames = Painter(), panning(9)
    every = FixedPeriod(4, Level.CARRY)
    options = {"scheduler": every, "offline": every, "fusion": 0}
    plain = list(VideoSegmenter(colors, **options).stream(frames, mode=mode))
    results = list(VideoSegmenter(colors, corrector=painter, **options).stream(frames, mode=mode))
    for before, after in zip(plain, results, strict=True):
        assert before.level is after.level
        if after.level is Level.KEY:
            assert np.array_equal(before.labels, after.labels)
            continue
        assert (after.labels[:, :60] == 2).all()
        assert np.array_equal(before.labels[:, 72:], after.labels[:, 72:])
        assert after.macs == 7
        assert after.changed.shape == (12, 16)
    image, before, logits = painter.seen[0]
    assert image.shape == before.shape == (48, 64, 3)
    assert logits.shape == (12, 16, CLASSES)


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
    shown, mask = correct(Painter(0.05), view_warped(anchor.evidence, None, texture(*SIZE)), anchor.shown, 0.5)
    assert shown.labels is anchor.labels
    assert mask.max() == np.float32(0.05)


def test_a_foreground_is_corrected_softly():
    probability = np.full(SIZE, 0.2, np.float32)
    shown = Segmentation(np.zeros(SIZE, np.uint8), probability)
    evidence = make_evidence(texture(*SIZE), shown, None, 2)
    assert np.allclose(np.exp(evidence.logits[:, :, 1]), 0.2)
    corrected, _ = correct(Painter(), view_warped(evidence, None, texture(*SIZE)), shown, 0.5)
    assert corrected.probability[:, :56].min() > 0.9
    assert np.allclose(corrected.probability[:, 72:], 0.2)
    assert corrected.labels[:, :56].all()
    assert not corrected.labels[:, 72:].any()


def test_labels_alone_count_as_certain():
    labels = np.zeros(SIZE, np.uint8)
    labels[48:] = 2
    evidence = make_evidence(texture(*SIZE), Segmentation(labels), None, CLASSES)
    assert np.array_equal(evidence.logits.argmax(2), labels[4::8, 4::8])


def test_probabilities_of_any_resolution_are_brought_to_the_grid():
    fine = np.random.default_rng(0).dirichlet(np.ones(CLASSES), SIZE).astype(np.float32)
    evidence = make_evidence(texture(*SIZE), Segmentation(np.zeros(SIZE, np.uint8)), fine, CLASSES)
    assert evidence.logits.shape == (12, 16, CLASSES)


def test_one_pass_sees_both_sides():
    image = texture(*SIZE)
    black, white = (np.full((48, 64, 3), value, np.uint8) for value in (0, 200))
    ones, twos = (np.log(np.full((12, 16, CLASSES), share, np.float32)) for share in (0.2, 0.4))
    share = np.full((24, 32), 0.25, np.float32)
    sides = (AnchorEvidence(black, ones), None), (AnchorEvidence(white, twos), None)
    _, before, logits = view_blended(sides, share, image)
    assert np.allclose(before, 150, atol=1)
    assert np.allclose(np.exp(logits), 0.35)


@pytest.mark.parametrize("mode", ["offline", "online", "realtime"])
@pytest.mark.parametrize("size", [(1, 7), (3, 5), (15, 40)])
def test_a_frame_too_small_to_be_corrected_is_carried_all_the_same(mode, size):
    every, painter = FixedPeriod(3, Level.CARRY), Painter()
    frames = panning(5, size)
    segmenter = VideoSegmenter(colors, corrector=painter, scheduler=every, offline=every)
    assert [result.labels.shape for result in segmenter.stream(frames, mode=mode)] == [size] * 5
    assert not painter.seen
