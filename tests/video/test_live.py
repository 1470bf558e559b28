"""Standard input and networks: pipes are read to their end, live streams drop the oldest frames and come back."""

from __future__ import annotations

import io
import socket
import subprocess
import sys
import threading
import time
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest

from clips import clip
from stmg.errors import VideoError
from stmg.video import opening
from stmg.video.decoding import Container
from stmg.video.sources import open_video
from waiting import PATIENCE, wait_for

READ_STDIN = """
import sys, time
from stmg.video.sources import open_video
with open_video("-", ahead=999) as source:
    print(*(next(source).index for _ in range(int(sys.argv[1]))))
    time.sleep(0.5)  # until the decoding thread has read all there is, and waits
"""


def reading_process(num_frames: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", READ_STDIN, str(num_frames)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def test_a_pipe_is_read_to_its_end(tmp_path: Path) -> None:
    output, errors = reading_process(30).communicate(clip(tmp_path / "clip.ts").read_bytes(), timeout=PATIENCE)
    assert [int(index) for index in output.split()] == list(range(30))
    assert errors == b""


def test_a_process_that_read_enough_of_an_open_pipe_ends(tmp_path: Path) -> None:
    process = reading_process(2)
    assert process.stdin is not None
    process.stdin.write(clip(tmp_path / "clip.ts", 150).read_bytes())
    process.stdin.flush()
    assert process.wait(timeout=PATIENCE) == 0  # though nobody closed its standard input
    assert process.stdout is not None
    assert process.stderr is not None
    assert (process.stdout.read().split(), process.stderr.read()) == ([b"0", b"1"], b"")
    for stream in (process.stdin, process.stdout, process.stderr):
        stream.close()


def test_a_file_as_standard_input_may_have_its_index_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = io.BytesIO(clip(tmp_path / "clip.mp4").read_bytes())
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(data))
    assert len(list(open_video("-"))) == 30


class Server:
    """Sends each of its files to one connection after the other, then refuses more.

    held: keeps each connection until it is set, in silence.
    """

    def __init__(self, *files: bytes, held: threading.Event | None = None) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"tcp://127.0.0.1:{self._socket.getsockname()[1]}"
        self._files, self._held = files, held
        self.thread = threading.Thread(target=self._serve)
        self.thread.start()

    def _serve(self) -> None:
        with self._socket:
            for data in self._files:
                connection, _ = self._socket.accept()
                with connection:
                    connection.sendall(data)
                    if self._held is not None:
                        self._held.wait(PATIENCE)


def test_a_live_stream_drops_the_oldest_frames_for_a_slow_consumer(tmp_path: Path) -> None:
    server = Server(clip(tmp_path / "clip.ts", 60).read_bytes())
    indices = []
    with open_video(server.url, retries=0, ahead=3) as source:
        assert source.live
        assert source.num_frames is None
        indices.append(next(source).index)
        wait_for(lambda: source.dropped, lambda dropped: dropped >= 56)  # sixty less one taken and three waiting
        with pytest.raises(VideoError, match="broke off"):
            indices.extend(frame.index for frame in source)
    server.thread.join()
    assert indices[1:] == [57, 58, 59]
    assert source.dropped == 60 - len(indices)
    assert source.dropped_early == source.dropped  # the second frame was asked for after all of them


def test_frames_that_a_consumer_is_too_slow_for_are_not_those_from_before_its_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, asked = [100.0], threading.Event()
    monkeypatch.setattr("stmg.video.sources.time", SimpleNamespace(monotonic=lambda: now[0]))
    server = Server(clip(tmp_path / "clip.ts", 60).read_bytes())
    with open_video(server.url, retries=0, ahead=3) as source:
        put = source._queue.put
        # The third frame comes when the second has been asked for, however late that is.
        source._queue.put = lambda frame: (frame.index < 2 or asked.wait(PATIENCE), put(frame))  # type: ignore[method-assign]
        next(source)
        now[0] += 0.2
        next(source)
        asked.set()
        wait_for(lambda: source.dropped, lambda dropped: dropped >= 55)  # sixty less two taken and three waiting
        assert (source.dropped, source.dropped_early) == (55, 3)  # 25 frames a second were sent, by their own times
    server.thread.join()


def test_a_live_stream_is_opened_again_and_its_time_goes_on(tmp_path: Path) -> None:
    data = clip(tmp_path / "clip.ts", 20).read_bytes()
    server = Server(data, data)
    frames, begun = [], time.monotonic()
    source = open_video(server.url, retries=1, ahead=100)
    with source, pytest.raises(VideoError, match="1 attempts"):
        frames.extend(source)
    server.thread.join()
    assert [frame.index for frame in frames] == list(range(40))
    times = [frame.time or 0.0 for frame in frames]
    assert all(before < after for before, after in pairwise(times))
    # A second of waiting shows, by the clock and not on top of the 0.8 s that came at once.
    assert 1.0 < times[20] < time.monotonic() - begun


def test_closing_does_not_wait_for_a_silent_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usual, held = opening.NETWORK_TIMEOUT, threading.Event()
    monkeypatch.setattr(opening, "NETWORK_TIMEOUT", 3600.0)
    server = Server(clip(tmp_path / "clip.ts", 150).read_bytes(), held=held)
    with open_video(server.url) as source:
        next(source)
        time.sleep(0.3)  # until all there is has been read
        begun = time.monotonic()
    assert time.monotonic() - begun < usual
    assert server.thread.is_alive()  # it was not the other side that ended it
    held.set()
    server.thread.join()


class Unhurried(threading.Event):
    """An event that notes how long it was to be waited for, and waits for nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.waits.append(timeout or 0.0)
        return False


def test_the_wait_between_two_attempts_grows_to_half_a_minute(tmp_path: Path) -> None:
    server = Server(clip(tmp_path / "clip.ts", 20).read_bytes())
    reader = Container("stream", server.url, retries=2000)
    server.thread.join()
    reader.stopped = stopped = Unhurried()
    reader._open_again = lambda: setattr(reader, "_stream", None)  # type: ignore[method-assign]
    with closing(reader), pytest.raises(VideoError, match="2000 attempts"):
        list(reader.frames(1))
    assert stopped.waits[:7] == [1, 2, 4, 8, 16, 30, 30]
    assert (len(stopped.waits), max(stopped.waits)) == (2000, 30)
