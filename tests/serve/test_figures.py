"""Figures of a live stream, checked against values computed by hand."""

import math

import pytest

from results import result
from stmg.serve.figures import LiveStatistics
from stmg.serve.metrics import BUCKETS
from stmg.streaming.audit import Audit
from stmg.streaming.schedulers import Level


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def take_frames(distances, mode="realtime", **fields):
    clock = Clock()
    statistics = LiveStatistics(clock=clock)
    statistics.mode = mode
    for index, distance in enumerate(distances):
        clock.now += 0.1
        statistics.arrive(0)
        common = {"level": Level.CARRY, "distortion": 0.01, "computed": index == 0 or distance <= distances[index - 1]}
        statistics.add(result(index, anchor_distance=distance, time=index / 10, **common, **fields))
    return statistics, clock


def test_rates_count_the_last_seconds():
    statistics, clock = take_frames([*[1] * 10, *range(1, 41)])
    for _ in range(10):
        statistics.time_network(20.0)
    figures = statistics.read()
    assert figures.process_fps == pytest.approx(10, abs=0.3)
    assert figures.source_fps == pytest.approx(10, abs=0.3)
    assert figures.network_fps == pytest.approx(2.2, abs=0.2)
    assert (figures.network_ms, figures.network_runs) == (20.0, 11)
    clock.now += 60
    assert statistics.read().process_fps == 0
    assert statistics.read().silent_seconds == 60


def test_dropped_frames_came_from_the_source_too():
    clock = Clock()
    statistics = LiveStatistics(clock=clock)
    for _ in range(10):
        clock.now += 0.1
        statistics.arrive(2)
    figures = statistics.read()
    assert figures.dropped == 20
    assert figures.source_fps == pytest.approx(30, abs=1)
    assert figures.skipped_fps == pytest.approx(20, abs=1)


def test_a_frame_from_another_run_of_the_network_is_anchored():
    statistics, _ = take_frames([0, 1, 2, 3, 2, 3, 1, 1, 2])
    anchored = [point.anchored for point in statistics.points()]
    assert anchored == [True, False, False, False, True, False, True, True, False]


def test_offline_only_computed_frames_are_anchored():
    statistics = LiveStatistics(clock=Clock())
    statistics.mode = "offline"
    for index, distance in enumerate((0, 1, 2, 1, 0)):  # to the nearer of two anchors
        statistics.add(result(index, anchor_distance=distance, computed=distance == 0))
    assert [point.anchored for point in statistics.points()] == [True, False, False, False, True]
    assert statistics.read().network_runs == 2


def test_in_realtime_drift_adds_up_since_the_anchor():
    statistics, _ = take_frames([0, 1, 2, 3, 1])
    assert [point.drift for point in statistics.points()] == pytest.approx([0, 0.01, 0.02, 0.03, 0.01])
    statistics, _ = take_frames([0, 1, 2], mode="online", drift=0.5)
    assert [point.drift for point in statistics.points()] == [0.5, 0.5, 0.5]


def test_frames_of_a_scene_that_is_over_are_not_anchored():
    statistics, _ = take_frames([2, 2, 2], stale=True)
    assert not any(point.anchored for point in statistics.points())


def test_the_age_of_the_anchor_comes_from_the_times_of_the_frames():
    statistics, _ = take_frames([0, 1, 2, 3])
    assert statistics.read().anchor_frames == 3
    assert statistics.read().anchor_ms == pytest.approx(300)


def test_latency_is_a_histogram_and_two_quantiles():
    statistics = LiveStatistics(clock=Clock())
    for index, latency in enumerate([1.0] * 90 + [30.0] * 10):
        statistics.add(result(index, latency_ms=latency))
    figures, (counts, seconds) = statistics.read(), statistics.histogram(BUCKETS)
    assert (figures.latency_p50_ms, figures.latency_p95_ms) == (1.0, 30.0)
    assert counts[0] == counts[BUCKETS.index(0.02)] == 90
    assert counts[BUCKETS.index(0.05)] == counts[-1] == 100
    assert seconds == pytest.approx(0.39)


def test_audits_are_kept_with_their_trend():
    statistics = LiveStatistics(clock=Clock())
    for index, changed in enumerate((0.01, 0.02, 0.03)):
        statistics.add(result(index, audit=Audit(changed, {}, 2)))
    figures = statistics.read()
    assert (figures.audit, figures.audit_mean, figures.audits) == (0.03, 0.02, 3)
    assert figures.audit_trend == (0.01, 0.02, 0.03)


def test_no_figure_is_ever_nan():
    statistics = LiveStatistics(clock=Clock())
    statistics.add(result(0, distortion=math.nan, drift=math.nan))
    assert statistics.points()[0].distortion is None
    assert statistics.points()[0].drift is None
    assert statistics.points(after=1) == []
