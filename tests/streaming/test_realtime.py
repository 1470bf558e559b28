"""Realtime, driven by a test executor and clock, so that every label is known."""

import threading
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import pytest

from fakes import Worker
from stmg.runtimes.callable import CallableRuntime
from stmg.streaming import realtime
from stmg.streaming.audit import compare
from stmg.streaming.cost import Cost
from stmg.streaming.flow import compose, warp
from stmg.streaming.motion import DisMotion, make_view
from stmg.streaming.realtime import Realtime, RealtimeState, RealtimeStream
from stmg.streaming.schedulers import Level
from stmg.streaming.settings import Settings
from stmg.video.frames import Frame
from stmg.video.labels import IGNORE
from zoo import colors, panning, texture


def run(frames, intervals, function=colors, **options):
    worker = Worker(intervals)
    stream = RealtimeStream(CallableRuntime(function), Settings(), worker, **options)
    results = []
    for frame in frames:
        worker.tick()
        results.append(stream.step(frame))
    return results, worker


@pytest.mark.parametrize("intervals", [1, 2, 4])
def test_labels_are_those_of_the_newest_finished_anchor_warped_along_the_flow_since(intervals):
    frames = [Frame(image) for image in panning(14, step=3)]
    results, _ = run(frames, intervals, min_change=-1)
    motion, views = DisMotion(), [make_view(frame) for frame in frames]
    for number, result in enumerate(results):
        # The first frame is waited for; from then on a run starts when the one before it is finished.
        anchor = 0 if number < 1 else max(0, 1 + ((number - 1) // intervals - 1) * intervals)
        flow = None
        for at in range(anchor, number):
            flow = compose(flow, motion.estimate(views[at], views[at + 1]))
        expected = warp(colors(frames[anchor].image).argmax(0).astype(np.uint8), flow, nearest=True)
        assert result.anchor_distance == number - anchor
        assert np.array_equal(result.labels, expected)


def test_a_still_scene_leaves_the_network_idle():
    noise = np.random.default_rng(0)
    scene = texture(96, 128).astype(np.int16)
    frames = [np.clip(scene + noise.normal(0, 2, scene.shape), 0, 255).astype(np.uint8) for _ in range(30)]
    results, worker = run(frames, 2)
    assert worker.started == 1
    assert [result.anchor_distance for result in results] == list(range(30))
    _, worker = run(frames * 3, 2)
    assert worker.started == 3  # what change does not show cannot last: max_age is 30


def test_what_comes_into_view_is_worth_a_run_though_motion_explains_the_rest():
    _, worker = run(panning(12, step=3), 1)
    assert worker.started > 3


def test_after_a_cut_results_are_stale_until_the_first_answer():
    frames = panning(6, seed=1) + panning(8, seed=2)
    results, _ = run(frames, 3)
    assert results[6].reason == "cut"
    assert [result.stale for result in results[:6]] == [False] * 6
    stale = [number for number, result in enumerate(results) if result.stale]
    assert stale == list(range(6, 6 + len(stale)))
    assert 3 <= len(stale) <= 6
    ages = [results[number].anchor_distance for number in stale]
    assert ages == list(range(ages[0], ages[0] + len(ages)))  # old labels go on aging
    answered = results[6 + len(stale)]
    assert answered.anchor_distance <= 3


def test_after_a_size_change_there_are_no_labels_until_the_first_answer():
    results, _ = run(panning(3) + panning(6, (64, 96)), 2, min_change=-1)
    assert results[3].reason == "size change"
    assert results[3].stale
    assert results[3].labels.shape == (64, 96)
    assert (results[3].labels == IGNORE).all()
    assert not results[-1].stale


def test_an_error_of_the_network_is_raised_at_the_next_frame():
    def breaks(image):
        calls.append(1)
        if len(calls) > 1:
            raise RuntimeError("no more")
        return colors(image)

    calls = []
    with pytest.raises(RuntimeError, match="no more"):
        run(panning(10, step=4), 1, breaks)


def test_what_was_run_is_counted_where_it_started():
    results, worker = run(panning(9, step=4), 2)
    assert results[0].level is Level.KEY
    assert sum(result.cost is None for result in results) == worker.started  # a black box cannot be counted


def test_streams_share_a_worker_and_nothing_else():
    with ThreadPoolExecutor(1) as pool:
        streams = [RealtimeStream(CallableRuntime(colors), Settings(), pool) for _ in range(3)]
        videos = [panning(8, seed=seed) for seed in range(3)]
        for number in range(8):
            for stream, video in zip(streams, videos, strict=True):
                result = stream.step(video[number])
                assert np.array_equal(result.image, video[number])
                if number == 0:
                    assert np.array_equal(result.labels, colors(video[0]).argmax(0))


def test_latency_is_by_the_clock_given():
    moments = iter(range(100))
    stream = RealtimeStream(CallableRuntime(colors), Settings(), Worker(1), clock=lambda: next(moments) / 1000)
    assert stream.step(panning(1)[0]).latency_ms == pytest.approx(1.0)


def test_its_own_worker_ends_with_the_stream():
    stream = RealtimeStream(CallableRuntime(colors), Settings())
    assert len(list(stream.stream(panning(5)))) == 5
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("stmg-network")]


def test_where_every_frame_is_a_cut_the_newest_answer_is_shown():
    results, worker = run([texture(96, 128, seed=seed) for seed in range(8)], 1)
    assert [result.reason for result in results[1:]] == ["cut"] * 7
    assert worker.started == 8
    for number in range(2, 8):
        assert np.array_equal(results[number].labels, texture(96, 128, seed=number - 1).argmax(2))
        assert results[number].stale


def test_no_frame_waits_for_its_cost_to_be_counted():
    """A runtime may count a new size on a pass of the network, as PyTorch's does."""
    counted = []

    class Counting(CallableRuntime):
        def cost(self, size, level, keep, scale, masked):
            counted.append(size)
            return Cost(macs=5 if level is Level.KEY else 0)

    frames = [texture(48, 64)] * 3 + [texture(64, 96)] * 3
    results = []
    with ThreadPoolExecutor(1) as executor:
        stream = RealtimeStream(Counting(colors), Settings(), executor)
        for frame in frames:
            results.append(stream.step(frame))
            executor.submit(int).result()  # the network is done
    assert counted == []
    assert [result.macs for result in results] == [5, 0, 0, 5, 0, 0]  # where the runs started


def test_the_first_frame_of_each_result_of_the_network_is_marked():
    results, worker = run(panning(14, step=4), 3, min_change=-1)
    computed = [number for number, result in enumerate(results) if result.computed]
    assert computed == [0, 4, 7, 10, 13]
    assert worker.started == len(computed) + 1  # the last run has not finished


def test_a_state_may_be_continued_twice_with_the_same_results():
    def finish(function, *given):
        future = Future()
        future.set_result(function(*given))
        return future

    loop, frames = Realtime(CallableRuntime(colors), Settings(), finish), panning(8, step=3)
    state = RealtimeState()
    for frame in frames[:5]:
        _, state = loop.advance(frame, state)
    ends = []
    for _ in range(2):
        after = state
        for frame in frames[5:]:
            result, after = loop.advance(frame, after)
        ends.append(result)
    assert np.array_equal(ends[0].labels, ends[1].labels)
    assert ends[0].audit == ends[1].audit


def test_labels_are_audited_where_the_network_runs():
    threads = []

    def note(*given):
        threads.append(threading.current_thread())
        return compare(*given)

    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(1) as executor:
        patch.setattr(realtime, "compare", note)
        stream = RealtimeStream(CallableRuntime(colors), Settings(), executor, min_change=-1)
        audits = []
        for frame in panning(8, step=4):
            audits.append(stream.step(frame).audit)
            executor.submit(int).result()
    assert any(audits)
    assert threads
    assert threading.main_thread() not in threads
