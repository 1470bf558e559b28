import numpy as np
import pytest
import torch

from stmg import VideoSegmenter
from stmg.evaluation.rivals import CarriedLogits, HalfResolution, rivals_of
from stmg.evaluation.stream import base_cost, stream_figures, streamed
from stmg.scheduler import AlwaysKey, FixedPeriod, Level
from zoo import masked_runtime, streets

SIZE = (48, 64)


@pytest.fixture(scope="module")
def dataset():
    return streets(7, SIZE)


@pytest.fixture(scope="module")
def runtime():
    return masked_runtime(SIZE)


def test_the_base_on_every_frame_costs_itself(dataset, runtime):
    figures = stream_figures(VideoSegmenter(runtime, scheduler=AlwaysKey()), dataset, "val", SIZE)
    assert (figures.num_frames, figures.share(Level.KEY)) == (14, 100)
    assert figures.cost == runtime.cost(SIZE, Level.KEY, (), 1.0, masked=False)
    assert figures.kept_share != figures.kept_share  # there were no partial frames
    assert figures.fps > 0
    assert 0 <= figures.mean_iou <= 100


def test_every_video_starts_with_a_key_frame(dataset, runtime):
    segmenter = VideoSegmenter(runtime, scheduler=FixedPeriod(5, Level.CARRY))
    levels = [result.level for result, _ in streamed(segmenter, dataset.videos("val"), SIZE)]
    one = [Level.KEY, *[Level.CARRY] * 4, Level.KEY, Level.CARRY]
    assert levels == one + one
    figures = stream_figures(segmenter, dataset, "val", SIZE)
    assert figures.macs_share(base_cost(segmenter, SIZE)) == pytest.approx(100 * 4 / 14)


def test_partial_frames_count_their_blocks_and_the_mask_generator(dataset, runtime):
    segmenter = VideoSegmenter(runtime, scheduler=FixedPeriod(7))
    figures = stream_figures(segmenter, dataset, "val", SIZE)
    assert figures.share(Level.PARTIAL) == pytest.approx(100 * 12 / 14)
    assert 0 <= figures.kept_share <= 100
    costs = runtime.network.costs(torch.zeros(1, 3, *SIZE))
    least = costs.mask_generator + costs.of_pass((False,) * len(costs.blocks))
    most = costs.mask_generator + costs.network
    share = figures.macs_share(base_cost(segmenter, SIZE))
    assert 100 * least / costs.network <= share <= 100 * most / costs.network
    assert figures.cost.params < costs.params + costs.mask_params


def test_carried_logits_of_period_one_are_the_base(dataset, runtime):
    base = stream_figures(VideoSegmenter(runtime, scheduler=AlwaysKey()), dataset, "val", SIZE)
    rival = stream_figures(CarriedLogits(runtime, 1), dataset, "val", SIZE)
    assert np.array_equal(rival.counts.counts, base.counts.counts)
    third = stream_figures(CarriedLogits(runtime, 3), dataset, "val", SIZE)
    assert third.macs_share(base.cost) == pytest.approx(100 * 6 / 14)
    assert not np.array_equal(third.counts.counts, base.counts.counts)


def test_half_the_resolution_costs_about_a_quarter_and_keeps_the_size(dataset, runtime):
    base = runtime.cost(SIZE, Level.KEY, (), 1.0, masked=False)
    figures = stream_figures(HalfResolution(runtime), dataset, "val", SIZE)
    assert 20 < figures.macs_share(base) < 35
    assert figures.counts.counts.sum() > 0


def test_every_rival_segments_a_stream(dataset, runtime):
    video = dataset.videos("val")[0]
    for name, rival in rivals_of(VideoSegmenter(runtime)).items():
        results = [result for result, _ in streamed(rival, [video], SIZE)]
        assert results[0].level is Level.KEY, name
        assert all(result.labels.shape == SIZE for result in results), name
    copied = rivals_of(VideoSegmenter(runtime))["mask copied, every 3"]
    one, two, *_ = (result.labels for result, _ in streamed(copied, [video], SIZE))
    assert np.array_equal(one, two)
