"""Measurements of streams over labeled video: accuracy and cost."""

import numpy as np
import pytest
import torch

from stmg import VideoSegmenter
from stmg.evaluation.inputs import load_into_memory, read_frames
from stmg.evaluation.measure import base_cost, measure_stream, run_beside
from stmg.evaluation.meter import mean_cost
from stmg.evaluation.streams import Stream
from stmg.evaluation.way import ONLINE
from stmg.streaming.cost import Cost
from stmg.streaming.schedulers import AlwaysKey, FixedPeriod, Level
from zoo import streets

SIZE = (48, 64)


@pytest.fixture(scope="module")
def dataset():
    return streets(7, SIZE)


def test_the_base_on_every_frame_costs_itself(dataset, runtime):
    figures = measure_stream(VideoSegmenter(runtime, scheduler=AlwaysKey()), dataset, "val", SIZE)
    assert (figures.num_frames, figures.share(Level.KEY)) == (14, 100)
    assert figures.cost == runtime.cost(SIZE, Level.KEY, (), 1.0, masked=False)
    assert figures.kept_share != figures.kept_share  # there were no partial frames
    assert 0 <= figures.miou <= 100


def test_a_mean_cost_is_known_where_every_cost_is():
    assert mean_cost([Cost(10, 2, 4), Cost(), Cost(5, 1, 5)]) == Cost(5, 1, 3)
    assert mean_cost([Cost(10), None]) is None
    assert mean_cost([]) is None


def test_every_video_starts_with_a_key_frame(dataset, runtime):
    segmenter = VideoSegmenter(runtime, scheduler=FixedPeriod(5, Level.CARRY))
    stream = Stream(ONLINE, segmenter)
    levels = [
        moment.answers[0].result.level
        for video in dataset.videos("val")
        for moment in run_beside([stream], video, SIZE)
    ]
    one = [Level.KEY, *[Level.CARRY] * 4, Level.KEY, Level.CARRY]
    assert levels == one + one
    figures = measure_stream(segmenter, dataset, "val", SIZE)
    assert figures.macs_share(base_cost(segmenter.runtime, SIZE)) == pytest.approx(100 * 4 / 14)


def test_partial_frames_count_their_blocks_and_the_mask_generator(dataset, runtime):
    segmenter = VideoSegmenter(runtime, scheduler=FixedPeriod(7))
    figures = measure_stream(segmenter, dataset, "val", SIZE)
    assert figures.share(Level.PARTIAL) == pytest.approx(100 * 12 / 14)
    assert 0 <= figures.kept_share <= 100
    costs = runtime.network.costs(torch.zeros(1, 3, *SIZE))
    least = costs.mask_generator + costs.of_pass((False,) * len(costs.blocks))
    most = costs.mask_generator + costs.network
    share = figures.macs_share(base_cost(segmenter.runtime, SIZE))
    assert 100 * least / costs.network <= share <= 100 * most / costs.network
    assert figures.cost.params < costs.params + costs.mask_params


def test_a_video_in_memory_is_the_video(dataset, runtime):
    kept = load_into_memory(dataset, "val", SIZE, limit=4)
    (video, _), (original, _) = kept.videos("val"), dataset.videos("val")
    assert len(video) == 4
    assert np.array_equal(video.image(2), original.image(2, SIZE))
    assert np.array_equal(video.truth(3), original.truth(3, SIZE))
    frames = [frame.image for _, frame in read_frames(original, SIZE, 4)]
    assert all(np.array_equal(one.image, two) for (_, one), two in zip(read_frames(video, SIZE), frames, strict=True))
