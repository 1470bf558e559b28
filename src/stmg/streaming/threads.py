"""OpenCV's threads: one for each frame, while several frames are worked on side by side."""

from __future__ import annotations

import os
import threading
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from typing import TypeVar

import cv2

Item = TypeVar("Item")

_lock = threading.Lock()
_limiting = 0  # how many limit OpenCV now
_own = 0  # the user's own number of threads, meanwhile


def count_workers() -> int:
    """How many threads work on the frames of a stream: as many as OpenCV has, where the user limited those.

    Where nobody did, one more than there are cores keeps them busy while others wait for memory.
    """
    with _lock:
        threads = _own if _limiting else cv2.getNumThreads()
    cores = os.cpu_count() or 1
    return cores + 1 if threads >= cores else max(1, threads)


def set_opencv_threads(number: int) -> None:
    """Set the user's own number of threads. While OpenCV is limited, it takes effect afterwards."""
    global _own
    with _lock:
        if _limiting:
            _own = number
        else:
            cv2.setNumThreads(number)


@contextmanager
def limit_opencv_threads() -> Iterator[None]:
    """Inside, OpenCV splits no work: where all cores are busy with other frames, its threads wait for each other.

    OpenCV knows one number for the whole process, so it is limited until the last one who wants that leaves.
    """
    global _limiting, _own
    with _lock:
        if not _limiting:
            _own = cv2.getNumThreads()
            cv2.setNumThreads(1)
        _limiting += 1
    try:
        yield
    finally:
        with _lock:
            _limiting -= 1
            if not _limiting:
                cv2.setNumThreads(_own)


def limit_opencv_while_working(items: Generator[Item]) -> Iterator[Item]:
    """The items of a generator. OpenCV is limited while it makes one, and never while the consumer has control."""
    done = object()
    with closing(items):
        while True:
            with limit_opencv_threads():
                item = next(items, done)
            if item is done:
                return
            yield item  # type: ignore[misc]
