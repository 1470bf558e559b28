"""How many CPU threads the libraries that do the work may use."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import cv2

from stmg.errors import SettingsError
from stmg.streaming.offline import WINDOWS

_lock = threading.Lock()


def check_threads(threads: int) -> None:
    """Refuse numbers of threads under which a machine does nothing but switch between them."""
    cores = os.cpu_count() or 1
    most = max(64, 4 * cores)
    if not 1 <= threads <= most:
        raise SettingsError(f"threads is from 1 to {most} on this machine, which has {cores} cores; got {threads}")


def set_threads(threads: int | None) -> None:
    """Let OpenCV and PyTorch, where that is installed, use this many threads; None leaves them as they are."""
    if threads is None:
        return
    check_threads(threads)
    cv2.setNumThreads(threads)
    try:
        import torch
    except ImportError:
        return
    torch.set_num_threads(threads)


def share_threads(threads: int | None) -> int:
    """Of each of the frames that offline computes at once, where all together have so many; None: all cores."""
    return max(1, (threads or os.cpu_count() or 1) // (WINDOWS + 1))


@contextmanager
def torch_threads(number: int) -> Iterator[None]:
    """Inside, what the calling thread runs in PyTorch uses this many threads; other threads keep theirs."""
    import torch

    before = torch.get_num_threads()
    if before == number:
        yield
        return
    with _lock:
        # PyTorch takes a number for the thread that sets it and for all that begin later; those shall have the other.
        torch.set_num_threads(number)
        elsewhere = threading.Thread(target=torch.set_num_threads, args=(before,), name="stmg-threads")
        elsewhere.start()
        elsewhere.join()
    try:
        yield
    finally:
        torch.set_num_threads(before)
