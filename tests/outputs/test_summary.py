"""The summary of a stream, from statistics computed by hand."""

from __future__ import annotations

import json

import numpy as np

import stmg
from results import result
from stmg.outputs.summary import list_troubles, make_summary_lines, make_summary_values
from stmg.streaming.statistics import Statistics


def test_frames_are_counted_by_level():
    statistics = Statistics()
    texture = np.random.default_rng(0).integers(0, 255, (48, 64, 3), np.uint8)
    segmenter = stmg.VideoSegmenter(
        lambda image: image.transpose(2, 0, 1).astype(np.float32),
        scheduler=stmg.FixedPeriod(2, stmg.Level.CARRY),
        motion="none",
    )
    for each in segmenter.stream([texture] * 3):
        statistics.add(each)
    assert statistics.frames == {"key": 2, "carry": 1}
    assert statistics.num_frames == 3
    assert statistics.network_runs == 2
    assert statistics.shares() == "carry 33% key 67%"
    assert statistics.motion == {"none": 3}
    assert set(statistics.milliseconds) == {"key", "carry"}
    line, change = make_summary_lines(statistics)
    assert line.startswith("online: 3 frames, ")
    assert line.endswith("from source to outputs; MACs not counted; flow: none 3")
    assert change == "change not measured: too few computed frames"


def test_realtime_has_latency_age_runs_and_stale_frames():
    statistics = Statistics("realtime")
    ages = [0, 1, 2, 1, 2, 3, 4, 0]  # the network answers frames 0, 2 and, after a cut at 6, 7
    for index, age in enumerate(ages):
        computed, stale = index in (0, 3, 7), index == 6
        statistics.add(result(index, anchor_distance=age, computed=computed, stale=stale, latency_ms=float(index + 1)))
    assert statistics.network_runs == 3
    assert (statistics.latency(0.5), statistics.latency(0.95)) == (4.0, 8.0)
    _, first, second, _ = make_summary_lines(statistics)
    assert "latency 4.0 ms (p50), 8.0 ms (p95)" in first
    assert "network ran 3 times for 8 frames" in first
    assert "1.6 frames before" in first
    assert second.startswith("1 frames showed the labels of another scene")


def test_an_empty_stream_has_a_summary_without_nan():
    values = make_summary_values(Statistics("offline"))
    assert (values["frames"], values["macs_per_frame"], values["changed"]) == (0, None, None)
    json.dumps(values, allow_nan=False)


def test_troubles_are_named():
    statistics = Statistics(
        dropped=5, dropped_early=2, damaged="1 damaged packet", lost="it broke off", interrupted=True
    )
    early, late, damaged, lost, interrupted = list_troubles(statistics)
    assert early.startswith("2 frames came before the first")
    assert late.startswith("3 frames came faster")
    assert damaged == "1 damaged packet"
    assert lost.startswith("it broke off; ")
    assert interrupted.startswith("interrupted; ")
