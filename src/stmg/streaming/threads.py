"""OpenCV's threads: one for each frame, while several frames are worked on at once."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import cv2

_lock = threading.Lock()
_streams = 0  # that want it so
_allowed = 0  # before the first of them


def count_workers() -> int:
    """How many threads work on the frames of a stream: those that OpenCV is allowed, where it was limited.

    Where it is free, one more than there are cores fills what waits for memory.
    """
    with _lock:
        allowed = _allowed if _streams else cv2.getNumThreads()
    cores = os.cpu_count() or 1
    return cores + 1 if allowed >= cores else max(1, allowed)


@contextmanager
def one_opencv_thread_each() -> Iterator[None]:
    """Inside, OpenCV splits no work: where all cores are busy with other frames, its threads wait for each other.

    The setting is OpenCV's own, so it holds for the whole process, until the last stream that wants it ends.
    """
    global _streams, _allowed
    with _lock:
        if not _streams:
            _allowed = cv2.getNumThreads()
            cv2.setNumThreads(1)
        _streams += 1
    try:
        yield
    finally:
        with _lock:
            _streams -= 1
            if not _streams:
                cv2.setNumThreads(_allowed)
