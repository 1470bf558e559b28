"""Baselines: streams that one would try first."""

import numpy as np
import pytest

from fakes import WatchedRuntime
from stmg import VideoSegmenter
from stmg.evaluation.baselines import HalfResolution, WarpedLogits, make_baselines
from stmg.evaluation.measuring.streams import run_stream, stream_figures
from stmg.evaluation.method import Method
from stmg.streaming.schedulers import AlwaysKey, Level
from zoo import streets

SIZE = (48, 64)


@pytest.fixture(scope="module")
def dataset():
    return streets(7, SIZE)


def test_logits_warped_at_stride_one_are_the_base(dataset, runtime):
    base = stream_figures(VideoSegmenter(runtime, scheduler=AlwaysKey()), dataset, "val", SIZE)
    baseline = stream_figures(WarpedLogits(runtime, 1), dataset, "val", SIZE)
    assert np.array_equal(baseline.counts.counts, base.counts.counts)
    third = stream_figures(WarpedLogits(runtime, 3), dataset, "val", SIZE)
    assert third.macs_share(base.cost) == pytest.approx(100 * 6 / 14)
    assert not np.array_equal(third.counts.counts, base.counts.counts)


def test_logits_are_warped_along_the_motion_of_the_stream_beside_them(runtime):
    steppers = make_baselines(VideoSegmenter(runtime, motion="dis-fine"), SIZE)
    assert steppers[Method(kind="warped-logits", stride=5)]._motion.name == "dis-fine"
    steppers = make_baselines(VideoSegmenter(runtime, motion="none"), SIZE)
    assert steppers[Method(kind="warped-logits", stride=5)]._motion.name == "dis"


def test_half_the_resolution_costs_about_a_quarter_and_keeps_the_size(dataset, runtime):
    base = runtime.cost(SIZE, Level.KEY, (), 1.0, masked=False)
    figures = stream_figures(HalfResolution(runtime), dataset, "val", SIZE)
    assert 20 < figures.macs_share(base) < 35
    assert figures.counts.counts.sum() > 0


def test_every_baseline_segments_a_stream(dataset, runtime):
    video = dataset.videos("val")[0]
    for method, baseline in make_baselines(VideoSegmenter(runtime)).items():
        results = [result for result, _ in run_stream(baseline, [video], SIZE)]
        assert results[0].level is Level.KEY, method.name
        assert all(result.labels.shape == SIZE for result in results), method.name
    copied = make_baselines(VideoSegmenter(runtime))[Method(kind="copied-labels", stride=3)]
    one, two, *_ = (result.labels for result, _ in run_stream(copied, [video], SIZE))
    assert np.array_equal(one, two)


def test_an_export_for_one_size_is_not_run_at_half_of_it(runtime):
    fixed = WatchedRuntime(runtime)
    assert Method(kind="half-resolution") in make_baselines(VideoSegmenter(fixed))
    fixed.input_size = SIZE
    assert Method(kind="half-resolution") not in make_baselines(VideoSegmenter(fixed))
