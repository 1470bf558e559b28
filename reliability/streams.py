"""Streams for the soak test: many at once over one model, and a server that keeps disconnecting."""

from __future__ import annotations

import hashlib
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import stmg
from reliability.media import Image, picture
from reliability.processes import Limits, Run


class StreamTrial(NamedTuple):
    """Results of streams in parallel threads."""

    streams: int
    frames: int
    """In all."""
    different: list[int]
    """Streams whose labels differ from those of the same stream alone."""


def run_side_by_side(
    segmenter: stmg.VideoSegmenter, mode: str, num_streams: int, num_frames: int, size: tuple[int, int]
) -> StreamTrial:
    """Run each stream alone, then all at once, each in a thread of its own over the same weights."""

    def digest(stream: int) -> str:
        labels = hashlib.sha256()
        for result in segmenter.another().stream(_frames(stream, num_frames, size), mode=mode):
            labels.update(result.labels.tobytes())
            labels.update(f"{result.index} {result.level}".encode())
        return labels.hexdigest()

    alone = [digest(stream) for stream in range(num_streams)]
    assert len(set(alone)) > num_streams // 2, "the streams are too similar to tell apart"
    with ThreadPoolExecutor(num_streams) as threads:
        together = list(threads.map(digest, range(num_streams)))
    different = [stream for stream in range(num_streams) if alone[stream] != together[stream]]
    return StreamTrial(num_streams, num_streams * num_frames, different)


def _frames(stream: int, number: int, size: tuple[int, int]) -> Iterator[Image]:
    return (picture(index, size, seed=stream) for index in range(number))


class DroppingServer:
    """A live source that disconnects: sends `data` to one connection after the other and drops all but the last.

    It runs in a process of its own, so that the resources of its client can be counted.
    """

    def __init__(self, data: bytes, drops: int, log: Path) -> None:
        listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"tcp://127.0.0.1:{listening.getsockname()[1]}"
        self._run = Run(lambda: _serve(listening, data, drops), log, Limits(seconds=3600.0))
        self._log = log
        listening.close()

    @property
    def connections(self) -> int:
        """Number of connections so far."""
        return len((self._log / "stdout.txt").read_text().splitlines())

    def close(self) -> None:
        self._run.kill()


def _serve(listening: socket.socket, data: bytes, drops: int) -> None:
    for number in range(drops + 1):
        connection, _ = listening.accept()
        print(number, flush=True)
        with connection, suppress(OSError):
            connection.sendall(data)
            if number == drops:
                connection.recv(1)  # until the client disconnects
