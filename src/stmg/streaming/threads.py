"""OpenCV's threads: one for each frame, while several frames are worked on at once."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import cv2

_lock = threading.Lock()
_streams = 0  # that limit them
_limit = 0  # the user's own, while a stream has another


def count_workers() -> int:
    """How many threads work on the frames of a stream: as many as OpenCV has, where the user limited those.

    Where nobody did, one more than there are cores fills what waits for memory.
    """
    with _lock:
        threads = _limit if _streams else cv2.getNumThreads()
    cores = os.cpu_count() or 1
    return cores + 1 if threads >= cores else max(1, threads)


def set_opencv_threads(number: int) -> None:
    """The user's own limit; while a stream has another, it holds from the end of that on."""
    global _limit
    with _lock:
        if _streams:
            _limit = number
        else:
            cv2.setNumThreads(number)


@contextmanager
def limit_opencv_threads() -> Iterator[None]:
    """Inside, OpenCV splits no work: where all cores are busy with other frames, its threads wait for each other.

    The setting is OpenCV's own, so it holds for the whole process, until the last stream that wants it ends.
    """
    global _streams, _limit
    with _lock:
        if not _streams:
            _limit = cv2.getNumThreads()
            cv2.setNumThreads(1)
        _streams += 1
    try:
        yield
    finally:
        with _lock:
            _streams -= 1
            if not _streams:
                cv2.setNumThreads(_limit)
