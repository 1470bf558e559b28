"""Times measured in turns, and ratios within a repeat."""

from dataclasses import replace

import pytest

from stmg import VideoSegmenter
from stmg.evaluation.speed import Times, time_interleaved
from stmg.evaluation.streams import Stream
from stmg.evaluation.way import BASE, ONLINE
from stmg.streaming.cost import Cost
from stmg.streaming.schedulers import AlwaysKey, FixedPeriod, Level


def test_every_frame_of_every_way_is_timed_in_every_repeat(runtime, frames):
    seen = []
    streams = [
        Stream(BASE, VideoSegmenter(runtime, scheduler=AlwaysKey())),
        Stream(ONLINE, VideoSegmenter(runtime, scheduler=FixedPeriod(3, Level.CARRY))),
    ]
    times = time_interleaved(streams, frames, 2, lambda way, repeat, index, _: seen.append((way, repeat, index)))
    assert len(seen) == len(set(seen)) == 2 * 2 * len(frames)
    timing = times[ONLINE].relative_to(times[BASE])
    assert [(each.level, each.share) for each in timing.levels] == [
        (Level.KEY, pytest.approx(33.33)),
        (Level.CARRY, pytest.approx(66.67)),
    ]
    assert timing.latency.max_ms >= timing.latency.p95_ms >= timing.latency.p50_ms > 0
    assert times[BASE].relative_to(times[BASE]).gain == 1


def test_gains_are_of_the_same_repeat():
    base = Times([[10.0, 10.0], [20.0, 20.0]], [Level.KEY] * 2, [Cost(8, 2, 1)] * 2)
    stream = Times([[5.0, 5.0], [10.0, 10.0]], [Level.KEY, Level.CARRY], [Cost(8, 2, 1), Cost()])
    timing = stream.relative_to(base, extra_ms=5.0)
    assert (timing.gain, timing.gain_range) == (2, (2, 2))
    assert timing.fps == pytest.approx(150)
    assert timing.end_to_end_fps == pytest.approx((1000 / 10 + 1000 / 15) / 2, abs=0.01)
    assert stream.cost() == Cost(4, 1, 0)
    assert (timing.expected_gain, timing.gain_reached) == (2, 1)
    assert (timing.carry_overhead, base.relative_to(base).carry_overhead) == (0.5, None)
    disturbed = Times([[10.0, 99.0], [50.0, 11.0]], base.levels, base.costs)
    assert disturbed.relative_to(base).slowest_frame == 1.1
    assert replace(stream, costs=[None, Cost()]).relative_to(base).expected_gain is None


def test_a_video_that_begins_starts_afresh(runtime, frames):
    levels = []
    stepper = VideoSegmenter(runtime, scheduler=FixedPeriod(10, Level.CARRY))
    time_interleaved([Stream(ONLINE, stepper)], frames, 1, lambda *step: levels.append(step[3].level), starts={0, 4})
    assert [index for index, level in enumerate(levels) if level is Level.KEY] == [0, 4]
