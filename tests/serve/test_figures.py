"""Figures, computed by hand."""

import math

import pytest

from results import result
from stmg.serve.figures import BUCKETS, FigureCounter
from stmg.streaming.audit import Audit
from stmg.streaming.schedulers import Level


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def take_frames(distances, mode="realtime", **fields):
    clock = Clock()
    counter = FigureCounter(clock)
    for index, distance in enumerate(distances):
        clock.now += 0.1
        counter.arrive(0)
        counter.take(
            result(index, anchor_distance=distance, distortion=0.01, level=Level.CARRY, time=index / 10, **fields), mode
        )
    return counter, clock


def test_rates_count_the_last_seconds():
    counter, clock = take_frames([1] * 50)
    for _ in range(10):
        counter.run_network(20.0)
    figures = counter.read()
    assert figures.process_fps == pytest.approx(10, abs=0.3)
    assert figures.source_fps == pytest.approx(10, abs=0.3)
    assert figures.network_fps == pytest.approx(2, abs=0.1)
    assert (figures.network_ms, figures.network_runs) == (20.0, 10)
    clock.now += 60
    assert counter.read().process_fps == 0
    assert counter.read().silent_seconds == 60


def test_dropped_frames_came_from_the_source_too():
    clock = Clock()
    counter = FigureCounter(clock)
    for _ in range(10):
        clock.now += 0.1
        counter.arrive(2)
    figures = counter.read()
    assert figures.dropped == 20
    assert figures.source_fps == pytest.approx(30, abs=1)
    assert figures.skipped_fps == pytest.approx(20, abs=1)


def test_a_frame_from_another_run_of_the_network_is_anchored():
    counter, _ = take_frames([0, 1, 2, 3, 2, 3, 1, 1, 2])
    anchored = [point.anchored for point in counter.points()]
    assert anchored == [True, False, False, False, True, False, True, True, False]


def test_in_realtime_drift_adds_up_since_the_anchor():
    counter, _ = take_frames([0, 1, 2, 3, 1])
    assert [point.drift for point in counter.points()] == pytest.approx([0, 0.01, 0.02, 0.03, 0.01])
    counter, _ = take_frames([0, 1, 2], mode="online", drift=0.5)
    assert [point.drift for point in counter.points()] == [0.5, 0.5, 0.5]


def test_frames_of_a_scene_that_is_over_are_not_anchored():
    counter, _ = take_frames([2, 2, 2], stale=True)
    assert not any(point.anchored for point in counter.points())


def test_the_age_of_the_anchor_comes_from_the_times_of_the_frames():
    counter, _ = take_frames([0, 1, 2, 3])
    assert counter.read().anchor_frames == 3
    assert counter.read().anchor_ms == pytest.approx(300)


def test_latency_is_a_histogram_and_two_quantiles():
    counter = FigureCounter(Clock())
    for index, latency in enumerate([1.0] * 90 + [30.0] * 10):
        counter.take(result(index, latency_ms=latency), "online")
    figures, histogram = counter.read(), counter.latencies()
    assert (figures.latency_p50_ms, figures.latency_p95_ms) == (1.0, 30.0)
    assert sum(histogram.counts) == 100
    assert histogram.counts[0] == 90
    assert histogram.counts[BUCKETS.index(0.05)] == 10
    assert histogram.seconds == pytest.approx(0.39)


def test_audits_are_kept_with_their_trend():
    counter = FigureCounter(Clock())
    for index, changed in enumerate((0.01, 0.02, 0.03)):
        counter.take(result(index, audit=Audit(changed, {}, 2)), "online")
    figures = counter.read()
    assert (figures.audit, figures.audit_mean, figures.audits) == (0.03, 0.02, 3)
    assert figures.audit_trend == (0.01, 0.02, 0.03)


def test_no_figure_is_ever_nan():
    counter = FigureCounter(Clock())
    counter.take(result(0, distortion=math.nan, drift=math.nan), "online")
    assert counter.points()[0].distortion is None
    assert counter.points()[0].drift is None
    assert counter.points(after=1) == []
