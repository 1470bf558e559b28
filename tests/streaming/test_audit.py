"""Audits: measured values computed by hand, and a budget that follows them only if asked."""

import random
import time
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from fakes import Worker
from stmg.errors import SettingsError
from stmg.runtimes.callable import CallableRuntime
from stmg.segmenter import VideoSegmenter
from stmg.streaming.anchors import compute_anchor
from stmg.streaming.audit import AUDIT_PERIOD, MAX_FACTOR, MAX_STEP, Audit, Steering, compare
from stmg.streaming.blending import BlendInput, Side, blend_segmentation
from stmg.streaming.flow import compose, invert, warp
from stmg.streaming.motion import DisMotion, make_view
from stmg.streaming.offline import Offline
from stmg.streaming.realtime import RealtimeStream
from stmg.streaming.schedulers import DriftBudget, FixedPeriod, Level
from stmg.streaming.settings import Settings
from stmg.video.frames import Frame
from zoo import colors, panning

EVERY_FOURTH = FixedPeriod(4, Level.CARRY)


def audit(changed: float) -> Audit:
    return Audit(changed, {}, 3)


def labels_of(image):
    return colors(image).argmax(0).astype(np.uint8)


def test_pixels_are_counted_and_by_the_class_that_the_network_gives():
    shown = np.array([[0, 0, 1, 1], [2, 2, 2, 0]], np.uint8)
    computed = np.array([[0, 1, 1, 1], [2, 2, 0, 0]], np.uint8)
    assert compare(shown, computed, 5) == Audit(2 / 8, {0: pytest.approx(1 / 3), 1: pytest.approx(1 / 3), 2: 0.0}, 5)


def test_neighbors_tell_the_networks_own_flicker():
    shown, computed = np.zeros((2, 2), np.uint8), np.eye(2, dtype=np.uint8)
    assert compare(shown, computed, 1).flicker == 0.5
    assert compare(shown, computed, 2).flicker is None
    assert compare(shown, computed, 2, flicker=0.1).flicker == 0.1


def test_less_than_what_anchors_twice_as_far_would_show():
    audit = Audit(0.04, {3: 0.2}, 9, 0.01).bring_nearer()
    assert audit.changed == pytest.approx(0.69 * 0.04)
    assert audit.classes[3] == pytest.approx(0.69 * 0.2)
    assert (audit.distance, audit.flicker) == (5, 0.01)


def test_audits_above_the_limit_lower_the_budget_step_by_step_to_the_bound():
    steering, factors = Steering(), []
    for _ in range(40):
        steering = steering.follow(audit(0.5), 0.02)
        factors.append(steering.factor)
    assert factors[0] == pytest.approx(1 / MAX_STEP)
    assert all(later < before or later == 1 / MAX_FACTOR for before, later in pairwise(factors))
    assert factors[-1] == 1 / MAX_FACTOR


@pytest.mark.parametrize("changed", [0.0, 0.001])
def test_audits_below_the_limit_raise_it_to_the_bound(changed):
    steering = Steering()
    assert steering.follow(audit(changed), 0.02).factor == MAX_STEP
    for _ in range(40):
        steering = steering.follow(audit(changed), 0.02)
    assert steering.factor == MAX_FACTOR


def test_small_differences_are_small_steps_and_none_is_none():
    assert Steering(2.0).follow(audit(0.02), 0.02).factor == 2.0
    assert Steering(2.0).follow(audit(0.0242), 0.02).factor == pytest.approx(2.0 / 1.1)


def test_without_a_limit_the_budget_stays_and_what_was_measured_is_remembered():
    steering = Steering(unaudited=2).follow(audit(0.5)._replace(flicker=0.1), None)
    assert steering == Steering(1.0, 0.1, 0)
    assert steering.follow(None, None) == Steering(1.0, 0.1, 1)


def test_a_cut_leads_half_way_back_in_proportion():
    assert Steering(4.0, 0.1, 2).restart() == Steering(2.0, None, 2)
    assert Steering(0.25).restart().factor == 0.5


def test_online_the_last_labels_warped_are_compared_with_the_key_frame():
    frames = [Frame(image) for image in panning(9, step=3)]
    segmenter = VideoSegmenter(colors, scheduler=EVERY_FOURTH)
    results = [segmenter.step(frame) for frame in frames]
    assert [n for n, result in enumerate(results) if result.audit is not None] == [4, 8]
    motion, views, flow = DisMotion(), [make_view(frame) for frame in frames], None
    for n in range(4):
        flow = compose(flow, motion.estimate(views[n], views[n + 1]))
    shown = warp(labels_of(frames[0].image), flow, nearest=True)
    assert results[4].audit == compare(shown, results[4].labels, 4)
    assert results[4].audit.changed > 0


def test_a_planned_key_frame_is_audited_seldom_and_its_labels_are_the_same():
    frames = panning(2 + 4 * 2 * AUDIT_PERIOD, step=1)
    segmenter = VideoSegmenter(colors, scheduler=EVERY_FOURTH, fusion=0)
    results = [segmenter.step(frame) for frame in frames]
    keys = [result for result in results if result.level is Level.KEY]
    assert [n for n, result in enumerate(keys) if result.audit is not None] == [AUDIT_PERIOD, 2 * AUDIT_PERIOD]
    assert all(np.array_equal(result.labels, labels_of(result.image)) for result in keys)
    every = VideoSegmenter(colors, scheduler="always-key")
    assert all(every.step(frame).audit is None for frame in frames[:6])


def test_offline_the_anchors_before_and_after_are_blended_onto_the_one_between():
    frames = [Frame(image) for image in panning(13, step=3)]
    runtime = CallableRuntime(colors)
    results = list(Offline(runtime, Settings(scheduler=EVERY_FOURTH)).stream(frames))
    assert [n for n, result in enumerate(results) if result.audit is not None] == [4]
    motion, views = DisMotion().for_offline(), [make_view(frame) for frame in frames]
    back, ahead = None, None
    for n in range(4):
        back = compose(back, motion.estimate(views[n], views[n + 1]))
    for n in reversed(range(4, 8)):
        ahead = compose(ahead, invert(motion.estimate(views[n], views[n + 1])))
    left, between, right = (compute_anchor(runtime, frames[n]) for n in (0, 4, 8))
    shown = blend_segmentation(BlendInput(Side(left, back, 4), Side(right, ahead, 4), frames[4].image))
    assert results[4].audit == compare(shown.labels, between.labels, 4).bring_nearer()


def test_realtime_what_was_shown_for_a_frame_is_compared_with_its_answer():
    frames = panning(12, step=3)
    worker = Worker(3)
    stream = RealtimeStream(CallableRuntime(colors), Settings(), worker, min_change=-1)
    results = []
    for frame in frames:
        worker.tick()
        results.append(stream.step(frame))
    audited = {n: result.audit for n, result in enumerate(results) if result.audit is not None}
    assert list(audited) == [4, 7, 10]  # runs start at 1, 4 and 7 and take three frames
    assert audited[4] == compare(results[1].labels, labels_of(frames[1]), 1)
    assert audited[7] == compare(results[4].labels, labels_of(frames[4]), 3, audited[4].flicker)


def test_what_a_caller_writes_on_its_labels_is_not_audited():
    frames, worker = panning(5, step=3), Worker(3)
    stream = RealtimeStream(CallableRuntime(colors), Settings(), worker, min_change=-1)
    for frame in frames:
        worker.tick()
        result = stream.step(frame)
        result.labels[:] = 77
    assert result.audit is not None
    assert result.audit.changed < 0.9


def count_keys(results):
    return sum(result.level is Level.KEY for result in results)


@pytest.mark.parametrize("mode", ["online", "offline"])
def test_a_strict_limit_computes_more_and_a_lax_one_less(mode):
    frames = panning(120, step=2)
    keys = []
    for limit in (1e-5, None, 0.9):
        budget = DriftBudget(0.1, longest=60)
        segmenter = VideoSegmenter(colors, scheduler=budget, max_change=limit)
        keys.append(count_keys(segmenter.stream(frames, mode=mode)))
    assert keys[0] > 1.3 * keys[1] > 1.3 * keys[2]


def test_realtime_follows_the_limit_too():
    started = []
    for limit in (0.001, 0.9):
        worker = Worker(1)
        stream = RealtimeStream(CallableRuntime(colors), Settings(max_change=limit), worker, min_change=0.08)
        for frame in panning(80, step=1):
            worker.tick()
            stream.step(frame)
        started.append(worker.started)
    assert started[0] > started[1]


def test_steered_offline_results_do_not_depend_on_timing():
    frames = panning(40, seed=1) + panning(40, seed=2)

    def slowly(image):
        time.sleep(random.random() / 200)
        return colors(image)

    settings = Settings(scheduler=DriftBudget(0.2, longest=8), max_change=0.01)
    expected = list(Offline(CallableRuntime(colors), settings, workers=1).stream(frames))
    for _ in range(2):
        for result, other in zip(
            Offline(CallableRuntime(slowly), settings, workers=3).stream(frames), expected, strict=True
        ):
            assert (result.level, result.audit) == (other.level, other.audit)
            assert np.array_equal(result.labels, other.labels)


def test_a_limit_needs_a_budget_to_steer():
    with pytest.raises(SettingsError, match="max_change steers a drift budget, and the scheduler paper has none"):
        Settings(scheduler="paper", max_change=0.02)
    with pytest.raises(SettingsError, match=r"max_change .* the scheduler fixed has none"):
        Settings(scheduler=EVERY_FOURTH, max_change=0.02)
    with pytest.raises(SettingsError, match=r"max_change is a share between 0 and 1, such as 2% or 0\.02; got 2"):
        Settings(max_change=2)
    with pytest.raises(SettingsError, match="the offline scheduler fixed has none"):
        Settings(default_schedulers={"offline": EVERY_FOURTH}, max_change=0.02)
    assert Settings(default_schedulers={"offline": EVERY_FOURTH}, mode="online", max_change=0.02).max_change == 0.02


def test_a_scaled_budget_is_the_same_otherwise():
    budget = DriftBudget(0.3, longest=7)
    assert budget.scale(2.0) == replace(budget, key_above=0.6)
    assert budget.scale(1.0) is budget


def test_every_anchor_is_due_for_an_audit_that_steers_and_one_of_some_else():
    assert Steering().is_due(0.02)
    assert [Steering(unaudited=n).is_due(None) for n in (0, AUDIT_PERIOD - 2, AUDIT_PERIOD - 1)] == [False, False, True]


def test_the_budget_follows_the_audits_where_a_change_is_wanted():
    drift = DriftBudget()
    assert Steering(2.0).steer(drift, None) is drift
    assert Steering(2.0).steer(drift, 0.02) == drift.scale(2.0)
