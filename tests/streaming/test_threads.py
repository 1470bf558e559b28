"""Threads of OpenCV while several frames are processed at once."""

import cv2
import pytest

from stmg.runtimes.callable import CallableRuntime
from stmg.segmenter import VideoSegmenter
from stmg.streaming import threads
from stmg.streaming.threads import count_workers, limit_opencv_threads, set_opencv_threads
from zoo import colors, panning


@pytest.fixture
def two_threads():
    before = cv2.getNumThreads()
    cv2.setNumThreads(2)
    yield
    cv2.setNumThreads(before)


def test_opencv_has_one_thread_until_the_last_stream_ends(two_threads):
    workers = count_workers()
    with limit_opencv_threads():
        with limit_opencv_threads():
            assert cv2.getNumThreads() == 1
        assert cv2.getNumThreads() == 1
        assert count_workers() == workers  # what the user allows has not changed
    assert cv2.getNumThreads() == 2


def test_a_limit_that_is_set_meanwhile_holds_afterwards(two_threads):
    with limit_opencv_threads():
        set_opencv_threads(3)
        assert cv2.getNumThreads() == 1
    assert cv2.getNumThreads() == 3


class Colors(CallableRuntime):
    """A network that may run on several frames at once."""

    one_at_a_time = False


def test_a_stream_that_is_paused_or_left_early_leaves_opencv_its_threads(two_threads):
    limited = []

    def frames():
        for frame in panning(9):
            limited.append(cv2.getNumThreads())
            yield frame

    workers = count_workers()
    stream = VideoSegmenter(Colors(colors)).stream(frames(), mode="offline")
    next(stream)
    assert cv2.getNumThreads() == 2
    assert count_workers() == workers
    next(stream)
    stream.close()
    assert cv2.getNumThreads() == 2
    assert set(limited) == {1}


def test_a_function_that_is_called_once_at_a_time_may_have_all_threads(two_threads):
    threads = []

    def count(image):
        threads.append(cv2.getNumThreads())
        return colors(image)

    list(VideoSegmenter(count).stream(panning(9), mode="offline"))
    assert set(threads) == {2}


def test_the_threads_that_the_user_allows_are_those_of_a_stream(monkeypatch):
    monkeypatch.setattr(threads.os, "cpu_count", lambda: 64)
    monkeypatch.setattr(threads.cv2, "getNumThreads", lambda: 3)
    assert count_workers() == 3
    monkeypatch.setattr(threads.cv2, "getNumThreads", lambda: 64)
    assert count_workers() == 65
