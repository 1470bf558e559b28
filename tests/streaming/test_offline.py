"""Offline: labels from both sides, in order, for any timing."""

import random
import threading
import time
from itertools import pairwise

import numpy as np
import pytest

from stmg.errors import SettingsError, VideoError
from stmg.runtimes.callable import CallableRuntime
from stmg.segmenter import VideoSegmenter
from stmg.streaming import offline as offline_module
from stmg.streaming import windows
from stmg.streaming.anchors import compute_anchor
from stmg.streaming.blending import BlendInput, Side, blend_labels
from stmg.streaming.flow import compose, invert
from stmg.streaming.motion import DisMotion, make_view
from stmg.streaming.offline import Offline
from stmg.streaming.schedulers import (
    WINDOWS_AHEAD,
    AlwaysKey,
    DriftBudget,
    FixedPeriod,
    Level,
    PaperScheduler,
    limit_delay,
)
from stmg.streaming.settings import Settings
from stmg.video.frames import Frame
from zoo import colors, panning, texture

EVERY_FOURTH = FixedPeriod(4, Level.CARRY)


def offline(function=colors, scheduler=EVERY_FOURTH, **options):
    return Offline(CallableRuntime(function), Settings(scheduler=scheduler, **options), workers=2)


def test_frames_between_two_anchors_are_blended_from_both_as_by_hand():
    frames = [Frame(image) for image in panning(9)]
    results = list(offline().stream(frames))
    assert [result.level for result in results] == [Level.KEY if n % 4 == 0 else Level.CARRY for n in range(9)]
    assert [result.anchor_distance for result in results] == [0, 1, 2, 1, 0, 1, 2, 1, 0]
    assert [result.index for result in results] == list(range(9))
    motion, views = DisMotion().for_offline(), [make_view(frame) for frame in frames]
    back = [motion.estimate(views[n], views[n + 1]) for n in range(8)]
    left, right = (compute_anchor(CallableRuntime(colors), frames[n]) for n in (4, 8))
    to_left = compose(back[4], back[5])
    to_right = compose(invert(back[7]), invert(back[6]))
    expected = blend_labels(BlendInput(Side(left, to_left, 2), Side(right, to_right, 2), frames[6].image))
    assert np.array_equal(results[6].labels, expected)
    assert np.array_equal(results[4].labels, left.labels)


def test_the_finest_motion_is_searched_both_ways():
    frames = [Frame(image) for image in panning(9)]
    motion = DisMotion("dis-finest")
    results = list(offline(motion=motion).stream(frames))
    views = [make_view(frame, motion.view_width) for frame in frames]
    back = [motion.estimate(views[n], views[n + 1]) for n in range(8)]
    ahead = [motion.estimate(views[n + 1], views[n]) for n in range(8)]
    left, right = (compute_anchor(CallableRuntime(colors), frames[n]) for n in (4, 8))
    sides = Side(left, compose(back[4], back[5]), 2), Side(right, compose(ahead[7], ahead[6]), 2)
    assert np.array_equal(results[6].labels, blend_labels(BlendInput(*sides, frames[6].image)))


def test_it_comes_closer_to_the_network_than_looking_backwards():
    frames = panning(25, step=3)
    whole = [colors(frame).argmax(0) for frame in frames]
    sides = [result.labels for result in offline(scheduler=FixedPeriod(8, Level.CARRY)).stream(frames)]
    online = VideoSegmenter(colors, scheduler=FixedPeriod(8, Level.CARRY), fusion=0)
    behind = [result.labels for result in online.stream(frames)]
    errors = [np.mean([np.mean(a != b) for a, b in zip(labels, whole, strict=True)]) for labels in (sides, behind)]
    assert errors[0] < 0.7 * errors[1]


def test_results_do_not_depend_on_timing():
    frames = panning(14)

    def slowly(image):
        time.sleep(random.random() / 100)
        return colors(image)

    expected = [result.labels for result in offline().stream(frames)]
    for _ in range(2):
        assert all(np.array_equal(a.labels, b) for a, b in zip(offline(slowly).stream(frames), expected, strict=True))


def test_nothing_crosses_a_cut():
    first, second = panning(6, seed=1), panning(6, seed=2)
    together = list(offline().stream(first + second))
    apart = [*offline().stream(first), *offline().stream(second)]
    assert [result.reason for result in together][5:7] == ["last frame", "cut"]
    assert all(np.array_equal(a.labels, b.labels) for a, b in zip(together, apart, strict=True))


def test_a_size_change_and_a_gap_start_over():
    frames = [Frame(image, time=n / 10) for n, image in enumerate(panning(3))]
    late = [Frame(image, time=5 + n / 10) for n, image in enumerate(panning(3))]
    small = [Frame(image, time=5.3 + n / 10) for n, image in enumerate(panning(3, (64, 96)))]
    reasons = [result.reason for result in offline().stream(frames + late + small)]
    assert [reasons[n] for n in (0, 3, 6)] == ["first frame", "gap", "size change"]
    assert [reasons[n] for n in (2, 5, 8)] == ["last frame"] * 3


@pytest.mark.parametrize("number", [0, 1, 2, 3, 5])
def test_short_videos(number):
    results = list(offline().stream(panning(6)[:number]))
    assert len(results) == number
    assert all(results[n].level is Level.KEY for n in (0, -1) if results)


def test_a_still_scene_is_computed_as_seldom_as_the_budget_allows():
    still = [texture(96, 128)] * 40
    results = list(offline(scheduler=DriftBudget(0.6, longest=12)).stream(still))
    assert [n for n, result in enumerate(results) if result.level is Level.KEY] == [0, 12, 24, 36, 39]
    assert all(np.array_equal(result.labels, results[0].labels) for result in results)


def test_few_windows_are_in_memory_and_frames_come_as_they_are_done():
    read = []

    def source():
        for number, frame in enumerate(panning(60)):
            read.append(number)
            yield frame

    stream = offline().stream(source())
    for number, _ in zip(range(20), stream, strict=False):
        assert len(read) <= number + 4 * (WINDOWS_AHEAD + 2)
    stream.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("stmg-offline")]


def test_an_error_of_the_network_reaches_the_caller_after_what_is_done():
    def breaks(image):
        calls.append(1)
        if len(calls) > 3:
            raise RuntimeError("out of order")
        return colors(image)

    calls, got = [], []
    with pytest.raises(RuntimeError, match="out of order"):
        got.extend(result.index for result in offline(breaks).stream(panning(30)))
    assert got == list(range(len(got)))
    assert len(got) >= 9


def test_a_scheduler_with_partial_frames_is_refused():
    with pytest.raises(SettingsError, match="paper computes partial frames, which only online mode does"):
        Settings(scheduler="paper", mode="offline")
    with pytest.raises(SettingsError, match="paper computes partial frames, which offline mode does not"):
        Settings(default_schedulers={"offline": "paper"})


@pytest.mark.parametrize(
    "scheduler", [FixedPeriod(5, Level.CARRY), DriftBudget(0.1, longest=6), DriftBudget(9, longest=30)]
)
def test_a_stream_that_is_cut_at_seams_gives_what_the_whole_gives(monkeypatch, scheduler):
    monkeypatch.setattr(offline_module, "SEAM", 8)
    frames = [Frame(image, n, n / 10) for n, image in enumerate(panning(13, seed=1) + panning(22, seed=2))]
    whole = list(offline(scheduler=scheduler).stream(frames))
    assert all(whole[seam].level is Level.KEY for seam in (8, 16, 24, 32))
    for cuts in ((0, 8, 16, 24, 32, 34), (0, 16, 34), (0, 24, 34)):
        parts = []
        for first, last in pairwise(cuts):
            part = list(offline(scheduler=scheduler).stream(frames[first : last + 1]))
            parts += part if first == 0 else part[1:]  # the part before has written the frame they share
        assert len(parts) == len(whole)
        for one, two in zip(parts, whole, strict=True):
            assert np.array_equal(one.labels, two.labels)
            assert (one.index, one.level, one.reason, one.motion) == (two.index, two.level, two.reason, two.motion)
            assert one.drift == two.drift


def test_a_seam_costs_at_most_one_anchor():
    still = [texture(32, 48)] * (offline_module.SEAM + 13)
    results = offline(scheduler=DriftBudget(9, longest=100)).stream(still)
    keys = [(result.index, result.reason) for result in results if result.level is Level.KEY]
    assert keys == [
        (0, "first frame"),
        *[(100 * n, "drift") for n in range(1, 11)],
        (offline_module.SEAM, "seam"),
        (offline_module.SEAM + 12, "last frame"),
    ]


def test_an_error_of_the_source_comes_after_the_frames_before_it():
    def frames():
        yield from panning(11)
        raise VideoError("the cable was pulled")

    results = []
    with pytest.raises(VideoError, match="cable"):
        results.extend(result.index for result in offline().stream(frames()))
    assert results == list(range(11))


def test_offline_uses_the_motion_that_is_for_it_and_online_does_not():
    class Careless(DisMotion):
        def for_offline(self):
            return Careful()

    class Careful(DisMotion):
        def __init__(self):
            super().__init__()
            self.name = "careful"

    segmenter = VideoSegmenter(colors, motion=Careless(), scheduler=FixedPeriod(4, Level.CARRY))
    sources = {
        mode: {result.motion for result in segmenter.stream(panning(9), mode=mode)} for mode in ("offline", "online")
    }
    assert sources == {"offline": {"none", "careful"}, "online": {"none", "dis"}}


def test_offline_dis_searches_closer_patches_and_finer_levels_stay_as_they_are():
    dis, fine = DisMotion(), DisMotion("dis-fine")
    views = [make_view(Frame(image)) for image in panning(2, step=3)]
    online = dis.estimate(*views)  # first, so that its search exists when the copy is made
    assert not np.array_equal(dis.for_offline().estimate(*views), online)
    assert np.array_equal(dis.estimate(*views), online)
    assert fine.for_offline() is fine


def test_windows_get_shorter_and_never_longer():
    assert limit_delay(DriftBudget(0.6, longest=12), 8) == DriftBudget(0.6, longest=3)
    assert limit_delay(DriftBudget(0.6, longest=12), 1000) == DriftBudget(0.6, longest=12)
    assert limit_delay(FixedPeriod(8, Level.CARRY), 11) == FixedPeriod(4, Level.CARRY)
    assert limit_delay(AlwaysKey(), 2) == AlwaysKey()
    with pytest.raises(SettingsError, match="at least 2"):
        limit_delay(DriftBudget(), 1)
    with pytest.raises(SettingsError, match="got paper"):
        limit_delay(PaperScheduler(), 9)


@pytest.mark.parametrize("delay", [2, 5, 8, 14])
def test_no_result_lags_by_more(delay):
    read = 0

    def frames():
        nonlocal read
        for frame in panning(40):
            read += 1
            yield frame

    segmenter = VideoSegmenter(colors, scheduler=limit_delay(FixedPeriod(30, Level.CARRY), delay))
    lags = [read - 1 - result.index for result in segmenter.stream(frames(), mode="offline")]
    assert max(lags) <= delay
    assert max(lags) > delay - 3


def test_audits_are_computed_in_the_pool(monkeypatch):
    threads, compare = [], windows.compare
    monkeypatch.setattr(
        windows, "compare", lambda *given: threads.append(threading.current_thread()) or compare(*given)
    )
    results = list(offline().stream(panning(20)))
    assert any(result.audit for result in results)
    assert threads
    assert threading.main_thread() not in threads


def test_computed_frames_are_marked():
    assert all(result.computed == (result.level is Level.KEY) for result in offline().stream(panning(9)))
