"""Sources: the frames they deliver, the decoding thread, and clear errors."""

from __future__ import annotations

import gc
import time
import wave
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from clips import clip, decoding_threads, picture, wait_until_none_decodes, written
from stmg.errors import SettingsError, VideoError
from stmg.video.sources import open_video


def test_a_slow_consumer_of_a_file_misses_nothing_and_decoding_stays_only_a_little_ahead(
    tmp_path: Path,
) -> None:
    decoded = []
    with open_video(clip(tmp_path / "clip.mp4"), ahead=2) as source:
        put = source._queue.put
        source._queue.put = lambda frame: (decoded.append(frame.index), put(frame))  # type: ignore[method-assign]
        for count, frame in enumerate(source):
            time.sleep(0.005)
            assert frame.index == count
            assert len(decoded) <= count + 4  # handed out, two waiting, one waiting to wait
    assert count == 29


@pytest.mark.parametrize(
    ("every", "limit", "indices"),
    [
        (3, None, list(range(0, 30, 3))),
        (1, 4, [0, 1, 2, 3]),
        (7, 3, [0, 7, 14]),
        (7, 99, [0, 7, 14, 21, 28]),
        (1, 0, []),
    ],
)
def test_every_and_limit(tmp_path: Path, every: int, limit: int | None, indices: list[int]) -> None:
    with open_video(clip(tmp_path / "clip.mp4"), every=every, limit=limit) as source:
        assert source.num_frames == len(indices)
        assert source.fps == pytest.approx(25 / every)
        assert [frame.index for frame in source] == indices


def test_resize(tmp_path: Path) -> None:
    with open_video(clip(tmp_path / "clip.mp4"), resize=(48, 64), limit=1) as source:
        assert source.size == (48, 64)
        (frame,) = source
    assert frame.size == (48, 64)
    expected = cv2.resize(picture(0), (64, 48), interpolation=cv2.INTER_AREA)
    assert np.abs(frame.image.astype(int) - expected).mean() < 12


@pytest.mark.parametrize("options", [{"every": 0}, {"ahead": 0}, {"limit": -1}, {"resize": (0, 5)}, {"fps": 0}])
def test_impossible_options_are_refused(tmp_path: Path, options: Any) -> None:
    with pytest.raises(SettingsError, match="got"):
        open_video(clip(tmp_path / "clip.mp4", 2), **options)


def test_closing_early_stops_the_thread(tmp_path: Path) -> None:
    path = clip(tmp_path / "clip.mp4")
    for _ in range(20):
        with open_video(path, ahead=1) as source:
            next(source)
            assert len(decoding_threads()) == 1
        wait_until_none_decodes()
        assert next(source, None) is None


def test_a_forgotten_source_stops_its_thread(tmp_path: Path) -> None:
    source = open_video(clip(tmp_path / "clip.mp4"), ahead=1)
    next(source)
    assert len(decoding_threads()) == 1
    del source
    gc.collect()
    wait_until_none_decodes()


def test_an_unread_source_starts_no_thread_and_can_be_closed(tmp_path: Path) -> None:
    source = open_video(clip(tmp_path / "clip.mp4"))
    assert decoding_threads() == []
    source.close()
    source.close()
    assert list(source) == []


def audio_only(folder: Path) -> Path:
    with wave.open(str(folder / "sound.wav"), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(8000)
        file.writeframes(bytes(8000))
    return folder / "sound.wav"


def headless(folder: Path) -> Path:
    """An mp4 whose index is at its end, which is cut off."""
    path = clip(folder / "cut.mp4")
    return written(path, path.read_bytes()[: path.stat().st_size // 2])


MISTAKES: dict[str, tuple[Callable[[Path], Any], str]] = {
    "missing": (lambda folder: folder / "none.mp4", "does not exist"),
    "empty": (lambda folder: written(folder / "empty.mp4", b""), "is empty"),
    "no video": (
        lambda folder: written(folder / "text.mp4", b"hello, world\n" * 50),
        "check that it is a complete video",
    ),
    "headless": (headless, "check that it is a complete video"),
    "sound": (audio_only, "no video stream"),
    "no images": (lambda folder: folder, r"no images; their names must end in \.jpg"),
    "no match": (lambda folder: str(folder / "*.png"), "no images"),
    "camera name": (lambda folder: "camera:front", "like camera:0"),
    "camera": (lambda folder: "camera:61", "is not available"),
    "url": (lambda folder: "tcp://user:secret@127.0.0.1:1", r"^tcp://127\.0\.0\.1:1 cannot be opened"),
    "query": (lambda folder: "tcp://127.0.0.1:1?key=secret", r"^tcp://127\.0\.0\.1:1 cannot be opened"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_explained_in_one_line(tmp_path: Path, mistake: str, capfd: pytest.CaptureFixture[str]) -> None:
    make, message = MISTAKES[mistake]
    with pytest.raises(VideoError, match=message) as caught:
        open_video(make(tmp_path))
    assert "\n" not in str(caught.value)
    assert "secret" not in str(caught.value)
    assert capfd.readouterr().err == ""
