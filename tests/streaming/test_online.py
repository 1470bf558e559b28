"""The online loop: which frames are computed, what the others take from them, and the cost."""

from itertools import pairwise

import numpy as np
import pytest
import torch

from stmg.errors import SettingsError
from stmg.runtimes.callable import CallableRuntime
from stmg.segmenter import VideoSegmenter
from stmg.streaming.logits import argmax_labels
from stmg.streaming.masks import Masking
from stmg.streaming.motion import DisMotion
from stmg.streaming.schedulers import DriftBudget, FixedPeriod, Level, Memory, Scheduler
from stmg.video.frames import Frame
from zoo import colors, panning, texture

SIZE = (96, 128)


def test_always_key_is_the_untouched_network_bit_for_bit(model, plain):
    frames = panning(3, SIZE)
    for frame, result in zip(frames, VideoSegmenter(plain, scheduler="always-key").stream(frames), strict=True):
        with torch.no_grad():
            logits = model(plain.prepare(frame).clone())[0].numpy()
        assert np.array_equal(result.labels, argmax_labels(logits, SIZE))
        assert (result.level, result.kept_blocks) == (Level.KEY, 5)


def test_always_key_looks_for_neither_motion_nor_change(trained_like, monkeypatch):
    """The base network must not be slowed down by what it does not use."""
    segmenter = VideoSegmenter(trained_like, scheduler="always-key")
    monkeypatch.setattr(segmenter.online.tracker.estimator, "estimate", None)
    results = list(map(segmenter.step, panning(3, SIZE)))
    assert [result.reason for result in results] == ["first frame", "always-key", "always-key"]
    assert results[1].changed is None


def test_carried_labels_follow_the_motion():
    """A pan over colored stripes: labels warped along the flow agree with those computed, others do not."""
    frames = panning(6, SIZE, step=1, seed=3)
    truth = [frame.argmax(2) for frame in frames]
    agreement = {}
    for motion in ("dis", "none"):
        segmenter = VideoSegmenter(colors, scheduler=FixedPeriod(6, Level.CARRY), motion=motion)
        results = list(segmenter.stream(frames))
        assert [result.level.value for result in results] == ["key"] + ["carry"] * 5
        agreement[motion] = (results[-1].labels == truth[-1]).mean()
    assert agreement["dis"] > 0.95 > 0.8 > agreement["none"]


def test_a_still_video_is_computed_once_until_the_longest_run(plain):
    frames = panning(1, SIZE) * 12
    results = list(VideoSegmenter(plain, scheduler=DriftBudget(longest=8)).stream(frames))
    assert [n for n, result in enumerate(results) if result.level is Level.KEY] == [0, 8]
    assert all(np.array_equal(result.labels, results[0].labels) for result in results)
    assert results[1].distortion == 0


def test_a_key_frame_that_was_planned_looks_for_no_motion(monkeypatch):
    looked = []
    estimate = DisMotion.estimate
    monkeypatch.setattr(DisMotion, "estimate", lambda *views: looked.append(1) or estimate(*views))
    brighter = [frame.astype(int) + 12 * (number % 5) ** 2 for number, frame in enumerate(panning(12, SIZE))]
    frames = [np.clip(frame, 0, 255).astype(np.uint8) for frame in brighter]
    runs = {}
    for fusion in (0.0, 0.5):
        looked.clear()
        results = list(VideoSegmenter(colors, scheduler=DriftBudget(0.3), fusion=fusion).stream(frames))
        runs[fusion] = [result.level for result in results], len(looked)
    unfused, fused = runs[0.0], runs[0.5]
    assert unfused[0] == fused[0]
    assert unfused[1] < fused[1] == len(frames) - 1


def test_drift_adds_up_and_a_key_frame_pays_it_off():
    brighter = [frame.astype(int) + 12 * (number % 5) ** 2 for number, frame in enumerate(panning(12, SIZE))]
    frames = [np.clip(frame, 0, 255).astype(np.uint8) for frame in brighter]
    results = list(VideoSegmenter(colors, scheduler=DriftBudget(key_above=0.3)).stream(frames))
    for before, now in pairwise(results):
        if before.level is Level.CARRY and now.level is Level.CARRY:
            assert now.drift >= before.drift * 0.9
        assert (now.drift > 0.3) == (now.level is Level.KEY) or now.reason == "cut"
    assert {result.level for result in results} == {Level.KEY, Level.CARRY}


def test_a_partial_frame_that_refreshes_everything_leaves_no_debt(plain):
    scheduler = DriftBudget(key_above=9, partial_above=0.0)
    fresh = VideoSegmenter(plain, scheduler=scheduler, masking=Masking(spatial="fresh"))
    stale = VideoSegmenter(plain, scheduler=scheduler, masking=Masking(spatial=0.0))
    frames = panning(6, SIZE, step=7)
    refreshed, kept = list(fresh.stream(frames)), list(stale.stream(frames))
    assert refreshed[-1].level is Level.PARTIAL
    assert refreshed[-1].drift == pytest.approx(refreshed[-1].distortion)
    assert kept[-1].drift > kept[1].drift


def test_the_distance_of_labels_counts_from_the_last_computed_frame_whole_or_not(plain):
    script = "kccpcck"

    class Script(Scheduler):
        refreshes = True

        def decide(self, evidence, memory):
            return {"k": "key", "p": "partial", "c": "carry"}[script[memory.since_key + 1]]

        def remember(self, level, evidence, memory):
            return Memory(memory.since_key + 1)

    frames = panning(len(script), SIZE, step=1)
    results = list(VideoSegmenter(plain, scheduler=Script(), fusion=0).stream(frames))
    assert "".join(result.level[0] for result in results) == script
    assert [result.anchor_distance for result in results] == [0, 1, 2, 0, 1, 2, 0]
    assert results[-1].audit.distance == 3


def test_all_fresh_and_all_kept_is_the_whole_network(plain):
    frames = panning(4, SIZE)
    whole = VideoSegmenter(plain, scheduler="always-key")
    partial = VideoSegmenter(plain, scheduler="per-frame", masking=Masking(pruning="none"))
    for one, two in zip(whole.stream(frames), partial.stream(frames), strict=True):
        assert np.array_equal(one.labels, two.labels)


def test_only_generated_masks_are_multiplied(plain, trained_like):
    gains = [VideoSegmenter(runtime, scheduler="paper").online.masking.gain for runtime in (plain, trained_like)]
    assert gains == [1.0, 1.5]


def test_what_no_audit_can_steer_is_reported_where_it_runs(plain):
    segmenter = VideoSegmenter(plain, mode="offline", default_schedulers={"online": FixedPeriod(2)}, max_change=0.02)
    with pytest.raises(SettingsError, match="the scheduler fixed has none; use drift"):
        list(segmenter.stream(panning(3, SIZE), mode="online"))


def test_a_mask_of_zero_in_the_papers_mode_returns_what_was(plain):
    frames = panning(5, SIZE, step=1)
    segmenter = VideoSegmenter(plain, scheduler=FixedPeriod(9), motion="none", masking=Masking(spatial=0.0))
    results = list(segmenter.stream(frames))
    assert all(result.level is Level.PARTIAL for result in results[1:])
    assert all(np.array_equal(result.labels, results[0].labels) for result in results)


def test_partial_frames_at_a_smaller_scale_cost_less_and_keep_the_size(plain):
    frames = panning(2, SIZE)
    results = list(VideoSegmenter(plain, scheduler="paper", partial_scale=0.5).stream(frames))
    assert results[1].level is Level.PARTIAL
    assert results[1].labels.shape == SIZE
    assert results[1].macs < 0.4 * results[0].macs


def test_a_key_frame_averages_its_logits_with_the_warped_ones_where_nothing_changed():
    logits = iter([2.0, -1.0] * 2)  # of one class, above 0 where it is
    still = texture(*SIZE)

    def labels(fusion):
        network = lambda image: np.full((1, 4, 6), next(logits), np.float32)  # noqa: E731
        runtime = CallableRuntime(network, "logits")
        segmenter = VideoSegmenter(runtime, scheduler=FixedPeriod(1), fusion=fusion)
        return [segmenter.step(still).labels.min() for _ in range(2)]

    assert labels(0.5) == [1, 1]  # (2 - 1) / 2 is above 0
    assert labels(0.0) == [1, 0]


def test_nothing_is_fused_in_the_papers_mode_nor_where_every_frame_is_computed(plain):
    assert VideoSegmenter(plain, motion="none").online.fusion == 0
    assert VideoSegmenter(plain, scheduler="always-key").online.fusion == 0
    assert VideoSegmenter(plain).another().online.fusion == 0.5


def test_a_size_change_makes_a_key_frame(plain):
    segmenter = VideoSegmenter(plain)
    results = list(segmenter.stream([*panning(3, SIZE), *panning(3, (64, 96))]))
    assert [result.reason for result in results] == ["first frame", "drift", "drift", "size change", "drift", "drift"]
    assert results[3].labels.shape == (64, 96)


def test_a_cut_makes_a_key_frame(plain):
    frames = [*panning(3, SIZE, seed=1), *panning(3, SIZE, seed=2)]
    results = list(VideoSegmenter(plain).stream(frames))
    assert results[3].reason == "cut"
    assert [result.level for result in results[4:]] == [Level.CARRY, Level.CARRY]


def test_a_gap_in_time_makes_a_key_frame(plain):
    times = [0.0, 0.1, 0.2, 3.0, 3.1, 1.0]
    frames = [Frame(image, None, time) for image, time in zip(panning(6, SIZE), times, strict=True)]
    reasons = [result.reason for result in VideoSegmenter(plain).stream(frames)]
    assert reasons == ["first frame", "drift", "drift", "gap", "drift", "gap"]


def test_pruned_blocks_show_in_the_result_and_in_its_cost(trained_like):
    results = list(
        VideoSegmenter(trained_like, scheduler="paper", masking=Masking(pruning=0.4)).stream(panning(2, SIZE))
    )
    assert results[0].kept_blocks == 5
    assert results[1].kept_blocks == 3
    assert results[1].macs < results[0].macs


def test_the_mask_generator_is_paid_for_on_every_frame_where_frames_may_be_partial(plain, trained_like):
    frames = panning(2, SIZE)
    carried, refreshed = FixedPeriod(2, Level.CARRY), DriftBudget(key_above=9, partial_above=9)
    without = [r.macs for r in VideoSegmenter(plain, scheduler=refreshed).stream(frames)]
    with_it = [r.macs for r in VideoSegmenter(trained_like, scheduler=refreshed).stream(frames)]
    assert without[1] == 0 < with_it[1]
    assert with_it[0] - without[0] == with_it[1]
    idle = [r.macs for r in VideoSegmenter(trained_like, scheduler=carried).stream(frames)]
    assert idle == without


def test_a_texture_is_not_a_cut_against_itself_in_other_light(plain):
    frame = texture(*SIZE)
    darker = (frame * 0.9).astype(np.uint8)
    results = list(VideoSegmenter(plain).stream([frame, darker]))
    assert results[1].reason == "drift"
