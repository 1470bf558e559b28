"""Baselines: the simple alternatives to stmg."""

import numpy as np
import pytest

from fakes import fix_size
from stmg import VideoSegmenter
from stmg.evaluation.baselines import HalfResolution, WarpedLogits
from stmg.evaluation.inputs import Subject
from stmg.evaluation.measure import measure_stream, run_beside
from stmg.evaluation.streams import list_baselines, open_way
from stmg.evaluation.way import Way
from stmg.streaming.schedulers import AlwaysKey, Level
from zoo import streets

SIZE = (48, 64)


@pytest.fixture(scope="module")
def dataset():
    return streets(7, SIZE)


def test_logits_warped_at_stride_one_are_the_base(dataset, runtime):
    base = measure_stream(VideoSegmenter(runtime, scheduler=AlwaysKey()), dataset, "val", SIZE)
    baseline = measure_stream(WarpedLogits(runtime, 1), dataset, "val", SIZE)
    assert np.array_equal(baseline.counts.counts, base.counts.counts)
    third = measure_stream(WarpedLogits(runtime, 3), dataset, "val", SIZE)
    assert third.macs_share(base.cost) == pytest.approx(100 * 6 / 14)
    assert not np.array_equal(third.counts.counts, base.counts.counts)


def test_logits_are_warped_along_the_motion_of_the_stream_beside_them(runtime):
    way = Way(kind="warped-logits", stride=5)
    assert open_way(way, VideoSegmenter(runtime, motion="dis-fine")).stepper._motion.name == "dis-fine"
    assert open_way(way, VideoSegmenter(runtime, motion="none")).stepper._motion.name == "dis"


def test_half_the_resolution_costs_about_a_quarter_and_keeps_the_size(dataset, runtime):
    base = runtime.cost(SIZE, Level.KEY, (), 1.0, masked=False)
    figures = measure_stream(HalfResolution(runtime), dataset, "val", SIZE)
    assert 20 < figures.macs_share(base) < 35
    assert figures.counts.counts.sum() > 0


def baselines(runtime):
    segmenter = VideoSegmenter(runtime)
    return {way: open_way(way, segmenter) for way in list_baselines(Subject(segmenter, "mine", SIZE), ["realtime"])}


def test_every_baseline_segments_a_stream(dataset, runtime):
    video = dataset.videos("val")[0]
    for way, baseline in baselines(runtime).items():
        results = [moment.answers[0].result for moment in run_beside([baseline], video, SIZE)]
        assert results[0].level is Level.KEY, way.name
        assert all(result.labels.shape == SIZE for result in results), way.name
    copied = baselines(runtime)[Way(kind="copied-labels", stride=3)]
    one, two, *_ = (moment.answers[0].result.labels for moment in run_beside([copied], video, SIZE))
    assert np.array_equal(one, two)


def test_an_export_for_one_size_is_not_run_at_half_of_it(runtime):
    assert Way(kind="half-resolution") in baselines(runtime)
    assert Way(kind="half-resolution") not in baselines(fix_size(runtime, SIZE))
