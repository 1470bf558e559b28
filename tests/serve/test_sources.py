"""Sources: files and streets are played at their own rate, in a loop."""

import threading
import time
from itertools import pairwise

import cv2
import pytest

from clips import picture
from stmg.errors import SettingsError, VideoError
from stmg.serve import sources
from stmg.serve.config import StreamConfig
from stmg.serve.sources import PlayedFile, open_source, render_street
from stmg.video.sources import open_video
from waiting import PATIENCE


def open_stream(source, tmp_path, **fields):
    return open_source(StreamConfig(name="a", source=str(source), **fields), tmp_path, threading.Event())


def test_a_file_starts_again_and_its_times_go_on(video, tmp_path):
    source = open_stream(video, tmp_path)
    begun = time.monotonic()
    frames = [next(source) for _ in range(45)]
    source.close()
    assert frames[-1].index + 1 == 45 + source.dropped  # each frame was shown or counted as dropped
    assert all(after.index > before.index for before, after in pairwise(frames))
    assert all(after.time > before.time for before, after in pairwise(frames))
    assert frames[-1].index >= 44
    assert time.monotonic() - begun > 0.8 * frames[-1].time


def test_a_file_that_is_not_to_start_again_ends(video, tmp_path):
    source = open_stream(video, tmp_path, loop=False)
    frames = list(source)
    assert len(frames) + source.dropped == 30
    source.close()


def test_closing_wakes_who_waits_for_a_frame(tmp_path):
    for name in ("1.png", "2.png"):
        cv2.imwrite(str(tmp_path / name), picture(0))
    source = PlayedFile(lambda: open_video(tmp_path, fps=0.001), False, threading.Event())
    next(source)
    waiting = threading.Thread(target=lambda: list(source), daemon=True)  # for the second frame, a thousand seconds
    waiting.start()
    waiting.join(0.2)
    source.close()
    waiting.join(PATIENCE)
    assert not waiting.is_alive()


def test_a_street_is_rendered_once(tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "STREET_SIZE", (32, 48))
    monkeypatch.setattr(sources, "STREET_SECONDS", 0.5)
    first = render_street(7, 10.0, tmp_path, threading.Event())
    changed = first.stat().st_mtime_ns
    assert render_street(7, 10.0, tmp_path, threading.Event()) == first
    assert first.stat().st_mtime_ns == changed
    source = open_stream("street:7", tmp_path, fps=10)
    assert next(source).size == (32, 48)
    source.close()


def test_a_street_that_is_no_longer_wanted_is_not_rendered_to_its_end(tmp_path):
    stopped = threading.Event()
    stopped.set()
    with pytest.raises(VideoError, match="stopped"):
        render_street(7, 10.0, tmp_path, stopped)
    assert not list(tmp_path.glob("street-7-10.mp4"))


def test_what_cannot_be_played_says_why(tmp_path):
    with pytest.raises(SettingsError, match="seed"):
        open_stream("street:x", tmp_path)
    with pytest.raises(VideoError, match="does not exist"):
        open_stream(tmp_path / "missing.mp4", tmp_path)
    (tmp_path / "empty.mp4").touch()
    with pytest.raises(VideoError, match="empty"):
        open_stream(tmp_path / "empty.mp4", tmp_path)
