"""Peak memory of segmenting, in a process of its own. Imports nothing heavy, which would count as well."""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from itertools import cycle, islice
from pathlib import Path
from typing import Any

OFFLINE_FRAMES = 48  # enough to fill the windows of an offline stream


def peak_memory(make_segmenter: Callable[[], Any], frames: Sequence[Any], mode: str = "online") -> int | None:
    """Peak bytes of a separate process that segments the frames in a mode, including Python and its libraries."""
    if sys.platform == "win32":
        return None
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(_measure, make_segmenter, list(frames), mode).result()


def _measure(make_segmenter: Callable[[], Any], frames: list[Any], mode: str) -> int:
    segmenter = make_segmenter()
    source: Iterable[Any] = frames if mode == "online" else _back_and_forth(frames, OFFLINE_FRAMES)
    for _ in segmenter.stream(source, mode=mode):
        pass
    status = Path("/proc/self/status")
    if status.is_file():  # on other systems, use the peak of the process, which a child inherits from its parent
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _back_and_forth(frames: list[Any], number: int) -> Iterator[Any]:
    """A stream of so many frames, each with its own copy of the image, as from a decoder."""
    there_and_back = cycle([*frames, *frames[-2:0:-1]])
    return (replace(frame, image=frame.image.copy()) for frame in islice(there_and_back, number))
