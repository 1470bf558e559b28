"""Set how many CPU threads OpenCV and PyTorch may use."""

from __future__ import annotations

import threading

from stmg.streaming.threads import set_opencv_threads

_lock = threading.Lock()


def set_threads(threads: int | None) -> None:
    """Let OpenCV and PyTorch, where that is installed, use this many threads; None leaves them as they are."""
    if threads is None:
        return
    set_opencv_threads(threads)
    try:
        import torch
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        return
    torch.set_num_threads(threads)


def share_torch_threads(parts: int) -> None:
    """Let PyTorch use one of so many parts of its threads for what the calling thread runs; other threads keep theirs.

    For a thread that has not used PyTorch yet. PyTorch takes a number for the thread that sets it and for all that
    begin later, so yet another thread sets those back.
    """
    import torch

    with _lock:
        all_threads = torch.get_num_threads()
        torch.set_num_threads(max(1, all_threads // parts))
        other = threading.Thread(target=torch.set_num_threads, args=(all_threads,), name="stmg-threads")
        other.start()
        other.join()
