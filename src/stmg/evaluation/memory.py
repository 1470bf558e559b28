"""Memory: what a process of its own needs to segment; this module imports nothing that would count with it."""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any


def peak_memory(make_stepper: Callable[[], Any], frames: Sequence[Any]) -> int | None:
    """Peak bytes of a process of its own that segments the frames, Python and its libraries included."""
    if sys.platform == "win32":
        return None
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(_measure, make_stepper, list(frames)).result()


def _measure(make_stepper: Callable[[], Any], frames: list[Any]) -> int:
    stepper = make_stepper()
    with stepper.runtime.exact_patterns():
        for frame in frames:
            stepper.step(frame)
    status = Path("/proc/self/status")
    if status.is_file():  # elsewhere the peak of a process counts, which a child takes over from its parent
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
