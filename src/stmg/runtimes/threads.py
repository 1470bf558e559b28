"""How many CPU threads the libraries that do the work may use."""

from __future__ import annotations

import cv2

from stmg.errors import SettingsError


def set_threads(threads: int | None) -> None:
    """Let OpenCV and PyTorch, where that is installed, use this many threads; None leaves them as they are."""
    if threads is None:
        return
    if threads < 1:
        raise SettingsError(f"threads is at least 1; got {threads}")
    cv2.setNumThreads(threads)
    try:
        import torch
    except ImportError:
        return
    torch.set_num_threads(threads)
