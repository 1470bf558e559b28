"""Realtime is measured as a user sees it, or with a fixed simulated delay."""

import time
from types import SimpleNamespace

import numpy as np
import pytest

import stmg
from stmg.evaluation import live
from stmg.evaluation.live import CountingExecutor, DelayedExecutor, LastFinished, _ages, run_live
from stmg.runtimes.callable import CallableRuntime
from stmg.streaming.cost import Cost
from stmg.streaming.realtime import RealtimeStream
from stmg.streaming.settings import Settings
from stmg.video.frames import Frame
from zoo import colors, panning


def test_frames_are_computed_at_their_model_size():
    sizes = set()

    def network(image):
        sizes.add(image.shape[:2])
        return colors(image)

    frames = [Frame(image) for image in panning(4, size=(96, 128))]
    run_live(stmg.VideoSegmenter(network, model_size=(24, 32)), [frames], 100.0)
    assert sizes == {(24, 32)}


def test_what_steers_realtime_need_not_steer_online():
    segmenter = stmg.VideoSegmenter(colors, mode="realtime", default_schedulers={"online": "fixed"}, max_change=0.02)
    assert run_live(segmenter, [[Frame(image) for image in panning(4)]], 100.0).network_runs >= 1


def test_the_network_runs_at_the_priority_that_realtime_gives_it(monkeypatch):
    calls = []
    monkeypatch.setattr(live, "lower_thread_priority", lambda: calls.append(1))
    with CountingExecutor() as executor:
        assert executor.submit(int).result() == 0
    assert calls == [1]


def test_runs_and_ages_are_counted():
    played = run_live(stmg.VideoSegmenter(colors), [[Frame(image) for image in panning(12)]], 50.0)
    assert played.network_runs >= 2
    assert 0 <= played.mean_age <= played.p95_age


def test_each_video_is_a_stream_of_its_own():
    videos = [[Frame(image) for image in panning(4)] for _ in range(2)]  # alike, so that there is no cut between them
    shown = []
    played = run_live(stmg.VideoSegmenter(colors), videos, 50.0, shown.append)
    own = [result.index == at % 4 for at, result in enumerate(shown)]  # a dropped frame shows the one before it
    assert [at for at, result in enumerate(shown) if result.reason == "first frame" and own[at]] == [0, 4]
    assert shown[4].anchor_distance == 0
    assert played.network_runs >= 2


def test_a_dropped_frame_shows_what_was_on_the_screen():
    def slow(image):
        time.sleep(0.08)  # four frames are due while the first one waits for the network
        return colors(image)

    frames, shown = [Frame(image) for image in panning(10)], []
    played = run_live(stmg.VideoSegmenter(slow), [frames], 50.0, shown.append)
    assert played.dropped >= 2
    assert len(shown) == len(frames)
    assert all(np.array_equal(result.labels, shown[0].labels) for result in shown[:3])
    assert [result.cost for result in shown[1:3]] == [Cost()] * 2
    assert played.latency.max_ms < shown[0].latency_ms  # the first one's wait is not theirs


def test_labels_grow_older_while_frames_are_dropped():
    answers = ((0, 0), (3, 1), (5, 1))  # the labels of the last one are of frame 3
    shown = [SimpleNamespace(index=index, anchor_distance=distance) for index, distance in answers]
    assert _ages(shown, 7) == [0, 1, 2, 3, 4, 2, 3]


def test_a_run_is_finished_so_many_intervals_after_it_started():
    executor = DelayedExecutor(2)
    run = executor.submit(lambda value: value + 1, 1)
    executor.tick()
    assert not run.done()
    executor.tick()
    assert run.done()
    assert run.result() == 2
    assert executor.submit(str, 5).result() == "5"  # what is waited for is finished at once
    assert executor.num_runs == 2


def test_an_error_is_raised_where_the_result_is_taken():
    executor = DelayedExecutor(1)
    run = executor.submit(int, "no number")
    executor.tick()
    with pytest.raises(ValueError, match="no number"):
        run.result()


@pytest.mark.parametrize("intervals", [1, 2, 4])
def test_copied_labels_are_as_old_as_those_of_a_realtime_stream_that_never_pauses(intervals):
    frames = panning(14, step=3)
    executor, last = DelayedExecutor(intervals), LastFinished(intervals)
    stream = RealtimeStream(CallableRuntime(colors), Settings(), executor, min_change=-1)
    for number, image in enumerate(frames):
        runs = executor.num_runs
        executor.tick()
        result = stream.step(image)
        shown = last.show(np.full((2, 2), number, np.uint8))
        assert (shown.age, shown.started) == (result.anchor_distance, executor.num_runs > runs)
        assert shown.labels[0, 0] == number - shown.age
