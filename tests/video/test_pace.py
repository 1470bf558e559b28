"""A paced source delivers frames at their own times by a test clock, and skips late frames."""

from __future__ import annotations

import itertools

import pytest

from clips import clip, picture
from stmg.errors import SettingsError, VideoError
from stmg.video.frames import Frame
from stmg.video.pace import pace
from stmg.video.sources import open_video

IMAGE = picture(0)


class Clock:
    """Time that passes only while somebody sleeps or works."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


class Frames:
    """A source of frames at these times; an error after them, if one is given."""

    name, live, size, damaged = "frames", False, None, None

    def __init__(self, times, fps=None, error=None):
        self.fps, self._error = fps, error
        self._frames = iter([Frame(IMAGE, index, time) for index, time in enumerate(times)])

    def __iter__(self):
        return self

    def __next__(self):
        for frame in self._frames:
            return frame
        if self._error is not None:
            raise self._error
        raise StopIteration


def play(times, work, **options):
    """(index, seconds since the first) of each frame handed out, and how many were dropped.

    work: how long the consumer takes over each frame.
    """
    clock, seen = Clock(), []
    paced = pace(Frames(times, **options), clock, clock.sleep)
    for frame, seconds in zip(paced, work, strict=False):
        seen.append((frame.index, round(clock.now - 100, 6)))
        clock.now += seconds
    return seen, paced.dropped


def test_a_quick_consumer_gets_every_frame_at_its_own_time():
    times = [2.0, 2.25, 2.5, 3.5]  # what counts is the time since the first
    assert play(times, itertools.repeat(0.0)) == ([(0, 0.0), (1, 0.25), (2, 0.5), (3, 1.5)], 0)


def test_a_late_consumer_gets_the_newest_frame_and_the_others_are_dropped():
    times = [0.0, 0.25, 0.5, 0.75, 1.0, 1.25]
    # 0 takes until 0.625: 1 and 2 are due, 2 is newer. Then until 1.0: 3 and 4 are due, 4 is newer. 5 is awaited.
    assert play(times, [0.625, 0.375, 0.0, 0.0]) == ([(0, 0.0), (2, 0.625), (4, 1.0), (5, 1.25)], 2)


def test_the_last_frame_is_never_dropped():
    assert play([0.0, 0.25, 0.5], [9.0, 0.0, 0.0]) == ([(0, 0.0), (2, 9.0)], 1)


def test_frames_without_times_come_at_the_rate_of_the_source():
    assert play([None] * 3, itertools.repeat(0.0), fps=4.0) == ([(0, 0.0), (1, 0.25), (2, 0.5)], 0)


def test_times_that_run_backwards_do_not_hold_a_frame_back():
    assert play([0.0, 0.5, 0.25, 0.75], itertools.repeat(0.0))[0] == [(0, 0.0), (2, 0.5), (3, 0.75)]


def test_without_times_and_rate_there_is_no_pace():
    with pytest.raises(SettingsError, match="give its frame rate"):
        play([None], [0.0])


def test_an_error_of_the_source_comes_after_its_last_frame():
    clock = Clock()
    paced = pace(Frames([0.0, 0.25], error=VideoError("broke off")), clock, clock.sleep)
    assert [next(paced).index, next(paced).index] == [0, 1]
    with pytest.raises(VideoError, match="broke off"):
        next(paced)
    with pytest.raises(StopIteration):
        next(paced)


def test_a_file_is_paced(tmp_path):
    clock = Clock()
    with open_video(clip(tmp_path / "a.mp4", 6)) as source:
        paced = pace(source, clock, clock.sleep)
        frames = list(paced)
    assert [frame.index for frame in frames] == list(range(6))
    assert clock.now == pytest.approx(100 + 5 / 25)


def test_the_first_frame_comes_though_the_machine_stalls_meanwhile():
    clock = Clock()

    def stall():
        clock.now += 1
        return clock.now

    paced = pace(Frames([0.0, 0.25, 0.5, 0.75]), stall, clock.sleep)
    assert [frame.index for frame in paced] == [0, 3]
    assert paced.dropped == 2


def test_frames_that_were_due_while_the_first_was_computed_are_counted_apart():
    clock = Clock()
    paced = pace(Frames([0.0, 0.25, 0.5, 0.75, 1.0, 1.25]), clock, clock.sleep)
    for seconds in (0.625, 0.375):
        next(paced)
        clock.now += seconds
    next(paced)
    assert (paced.dropped, paced.dropped_early) == (2, 1)
