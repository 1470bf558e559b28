"""Threads: OpenCV kept to one for each frame, while several are worked on side by side; priorities."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager, suppress
from typing import TypeVar

import cv2

Item = TypeVar("Item")

LOWEST_PRIORITY = 19  # of a thread

_lock = threading.Lock()
_limiting = 0  # how many limit OpenCV now
_own = 0  # the user's own number of threads, meanwhile


def count_workers() -> int:
    """Number of threads that work on the frames of a stream: as many as OpenCV has, if the user limited those.

    Otherwise one more than there are cores, which keeps the cores busy while some threads wait for memory.
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


def lower_thread_priority() -> None:
    """Let other threads come before this one and those it starts, where the system has priorities of threads.

    Without it the threads of the network share the cores with the frame that is to be answered at once.
    """
    if sys.platform == "linux":
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), LOWEST_PRIORITY)
