"""How many CPU threads the libraries that do the work may use."""

from __future__ import annotations

import os

import cv2

from stmg.errors import SettingsError


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
