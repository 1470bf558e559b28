"""Opening: a stalled pipe times out, and Ctrl-C interrupts the wait."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import pytest

from clips import clip
from commands import alone
from stmg.errors import VideoError
from stmg.video import opening
from stmg.video.sources import open_video
from waiting import wait_for


@pytest.fixture
def fifo(tmp_path: Path) -> Path:
    path = tmp_path / "stream.ts"
    os.mkfifo(path)
    return path


def opening_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "open"]


def test_a_named_pipe_is_read_to_its_end(tmp_path: Path, fifo: Path) -> None:
    data = clip(tmp_path / "clip.ts", 12).read_bytes()
    sender = threading.Thread(target=lambda: fifo.write_bytes(data))
    sender.start()
    assert [frame.index for frame in open_video(fifo)] == list(range(12))
    sender.join()


@pytest.mark.parametrize("begun", [False, True])
def test_a_pipe_that_sends_nothing_is_given_up(tmp_path: Path, fifo: Path, monkeypatch, begun: bool) -> None:
    usual = opening.PIPE_TIMEOUT
    monkeypatch.setattr(opening, "PIPE_TIMEOUT", 0.5)
    files = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").is_dir() else None
    writer = os.open(fifo, os.O_RDWR) if begun else None  # with or without anybody at the other end
    if writer is not None:
        os.write(writer, clip(tmp_path / "clip.ts", 12).read_bytes()[:400])
    started = time.monotonic()
    with pytest.raises(VideoError, match=r"stream\.ts sent nothing for"):
        open_video(fifo)
    assert time.monotonic() - started < usual
    if writer is not None:
        os.close(writer)
    assert not opening_threads()
    assert files is None or len(os.listdir("/proc/self/fd")) <= files


@alone
def test_an_interrupt_is_noticed_while_a_pipe_stalls(tmp_path: Path) -> None:
    path = tmp_path / "stream.ts"
    os.mkfifo(path)
    sender = threading.Thread(target=interrupt_opening)
    sender.start()
    with pytest.raises(KeyboardInterrupt):
        open_video(path)
    sender.join()
    wait_for(opening_threads, lambda threads: not threads)


def interrupt_opening() -> None:
    """Press Ctrl-C once something is being opened."""
    wait_for(opening_threads)
    time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGINT)
