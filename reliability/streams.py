"""Many streams over one model in threads: the labels of each are those of running alone."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import stmg
from reliability.media import Image, picture


class StreamTrial(NamedTuple):
    """What came of streams side by side."""

    streams: int
    frames: int
    """In all."""
    different: list[int]
    """Streams whose labels were not those of running alone."""


def run_side_by_side(
    segmenter: stmg.VideoSegmenter, mode: str, num_streams: int, num_frames: int, size: tuple[int, int]
) -> StreamTrial:
    """Each stream alone, then all at once, every one in a thread of its own over the same weights."""

    def digest(stream: int) -> str:
        labels = hashlib.sha256()
        for result in segmenter.another().stream(_frames(stream, num_frames, size), mode=mode):
            labels.update(result.labels.tobytes())
            labels.update(f"{result.index} {result.level}".encode())
        return labels.hexdigest()

    alone = [digest(stream) for stream in range(num_streams)]
    assert len(set(alone)) > num_streams // 2, "the streams are too much alike to tell them apart"
    with ThreadPoolExecutor(num_streams) as threads:
        together = list(threads.map(digest, range(num_streams)))
    different = [stream for stream in range(num_streams) if alone[stream] != together[stream]]
    return StreamTrial(num_streams, num_streams * num_frames, different)


def _frames(stream: int, number: int, size: tuple[int, int]) -> Iterator[Image]:
    return (picture(index, size, seed=stream) for index in range(number))
