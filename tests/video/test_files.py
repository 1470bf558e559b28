"""Files: every frame arrives in order, and damage is told."""

from __future__ import annotations

import gc
import time
import wave
from collections.abc import Callable
from pathlib import Path
from typing import Any

import av
import cv2
import numpy as np
import pytest

from clips import STEP, clip, decoding_threads, is_picture, picture, written
from stmg.video import VideoError, open_video


@pytest.mark.parametrize("ending", ["mp4", "mkv", "ts", "avi"])
def test_a_file_gives_every_frame_in_order_with_its_time(tmp_path: Path, ending: str) -> None:
    with open_video(clip(tmp_path / f"clip.{ending}")) as source:
        assert (source.fps, source.num_frames, source.size) == (25, 30, (96, 128))
        assert not source.live
        frames = list(source)
    assert [frame.index for frame in frames] == list(range(30))
    assert [frame.time for frame in frames] == pytest.approx([index / 25 for index in range(30)], abs=1e-3)
    assert all(is_picture(frame.image, frame.index or 0) for frame in frames)
    assert all(frame.image.flags.c_contiguous and frame.vectors is None for frame in frames)
    assert source.damaged is None
    assert source.dropped == 0
    assert next(source, None) is None


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
    with pytest.raises(VideoError, match="got"):
        open_video(clip(tmp_path / "clip.mp4", 2), **options)


def test_a_turned_video_comes_upright(tmp_path: Path) -> None:
    with av.open(str(tmp_path / "phone.mp4"), "w") as container:
        stream = container.add_stream("libx264", rate=25)
        stream.width, stream.height, stream.pix_fmt = 128, 96, "yuv420p"
        if not hasattr(stream, "set_display_rotation"):
            pytest.skip("this PyAV cannot write such a video")
        stream.set_display_rotation(-90)
        container.mux(stream.encode(av.VideoFrame.from_ndarray(picture(0), format="rgb24")))
        container.mux(stream.encode(None))
    (frame,) = open_video(tmp_path / "phone.mp4", motion_vectors=True)
    assert frame.size == (128, 96)
    assert np.abs(frame.image.astype(int) - np.rot90(picture(0), -1)).mean() < 12
    assert frame.vectors is None


# --- motion vectors


@pytest.mark.parametrize("b_frames", [0, 2])
def test_vectors_cover_the_way_from_the_frame_they_refer_to(tmp_path: Path, b_frames: int) -> None:
    settings = {"bf": str(b_frames), "b-adapt": "0", "b-pyramid": "none", "refs": "1", "sc_threshold": "0"}
    path = clip(tmp_path / "clip.mp4", 24, **settings)
    frames = list(open_video(path, motion_vectors=True))
    kinds = [frame.vectors.picture_type for frame in frames if frame.vectors]
    assert (kinds.count("B") > 10) == (b_frames > 0)
    measured = 0
    for index, frame in enumerate(frames):
        assert frame.vectors is not None
        assert frame.vectors.size == (96, 128)
        blocks, reference = frame.vectors.blocks, frame.vectors.reference
        past = blocks[blocks["source"] < 0]
        if kinds[index] == "I":
            assert len(blocks) == 0
        elif len(past):
            assert reference is not None
            assert kinds[reference] in "IP"
            shift = np.median(past["motion_x"] / past["motion_scale"])
            assert shift == pytest.approx(-STEP * (index - reference), abs=0.5)
            measured += 1
        assert kinds[index] != "P" or len(past) > 0
    assert measured >= 12
    assert frames[0].vectors is not None
    assert frames[0].vectors.reference is None


def test_vectors_are_the_same_each_time_and_keep_the_coded_size(tmp_path: Path) -> None:
    path = clip(tmp_path / "clip.mp4", 30, size=(384, 640), bf="2")  # large enough to keep two threads busy
    first = [frame.vectors for frame in open_video(path, motion_vectors=True)]
    for _ in range(6):
        source = open_video(path, resize=(48, 64))
        source.keep_motion_vectors()
        for before, frame in zip(first, source, strict=True):
            assert before is not None
            assert frame.vectors is not None
            assert frame.vectors.size == (384, 640)
            assert frame.vectors.blocks.tolist() == before.blocks.tolist()


def test_vectors_must_be_asked_for_in_time(tmp_path: Path) -> None:
    with open_video(clip(tmp_path / "clip.mp4")) as source:
        next(source)
        with pytest.raises(VideoError, match="before reading the first frame"):
            source.keep_motion_vectors()


# --- threads


def test_closing_early_stops_the_thread_at_once(tmp_path: Path) -> None:
    path = clip(tmp_path / "clip.mp4")
    for _ in range(20):
        with open_video(path, ahead=1) as source:
            next(source)
            assert len(decoding_threads()) == 1
        assert decoding_threads() == []
        assert next(source, None) is None


def test_a_forgotten_source_stops_its_thread(tmp_path: Path) -> None:
    source = open_video(clip(tmp_path / "clip.mp4"), ahead=1)
    next(source)
    assert len(decoding_threads()) == 1
    del source
    gc.collect()
    assert decoding_threads() == []


def test_an_unread_source_starts_no_thread_and_can_be_closed(tmp_path: Path) -> None:
    source = open_video(clip(tmp_path / "clip.mp4"))
    assert decoding_threads() == []
    source.close()
    source.close()
    assert list(source) == []


# --- damage and mistakes


def test_a_cut_file_gives_what_is_there_and_says_so(tmp_path: Path) -> None:
    path = clip(tmp_path / "clip.mkv", 60)
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 6 // 10])
    with open_video(path) as source:
        assert source.damaged is None
        frames = list(source)
    assert 20 < len(frames) < 50
    assert all(is_picture(frame.image, index) for index, frame in enumerate(frames[:-1]))
    assert source.damaged is not None
    assert "of 2.4 seconds" in source.damaged
    assert "\n" not in source.damaged


def test_a_damaged_packet_is_skipped_and_counted(tmp_path: Path) -> None:
    path = clip(tmp_path / "clip.mp4", 36)
    with av.open(str(path)) as container:
        packets = [(packet.pos, packet.size) for packet in container.demux(video=0) if packet.size]
    data = bytearray(path.read_bytes())
    place, size = packets[15]
    data[place : place + size] = b"\xff" * size
    path.write_bytes(data)
    with open_video(path) as source:
        frames = list(source)
    assert len(frames) >= 34
    assert is_picture(frames[-1].image, 35)
    assert source.damaged is not None
    assert "1 damaged packet was skipped" in source.damaged


def test_stopping_early_is_no_damage(tmp_path: Path) -> None:
    with open_video(clip(tmp_path / "clip.mkv", 60), limit=3) as source:
        assert len(list(source)) == 3
    assert source.damaged is None


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
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_explained_in_one_line(tmp_path: Path, mistake: str, capfd: pytest.CaptureFixture[str]) -> None:
    make, message = MISTAKES[mistake]
    with pytest.raises(VideoError, match=message) as caught:
        open_video(make(tmp_path))
    assert "\n" not in str(caught.value)
    assert "secret" not in str(caught.value)
    assert capfd.readouterr().err == ""


def test_a_file_of_which_nothing_decodes_is_an_error(tmp_path: Path) -> None:
    path = clip(tmp_path / "clip.mp4", 12)
    with av.open(str(path)) as container:
        packets = [(packet.pos, packet.size) for packet in container.demux(video=0) if packet.size]
    data = bytearray(path.read_bytes())
    for place, size in packets:
        data[place : place + size] = b"\xff" * size
    path.write_bytes(data)
    with pytest.raises(VideoError, match="no frame that can be decoded"):
        list(open_video(path))


# --- sizes that change


def test_frames_keep_their_size_when_it_changes(tmp_path: Path) -> None:
    parts = [clip(tmp_path / "one.ts", 10), clip(tmp_path / "two.ts", 10, size=(64, 96))]
    path = written(tmp_path / "joined.ts", b"".join(part.read_bytes() for part in parts))
    frames = list(open_video(path))
    assert [frame.size for frame in frames] == [(96, 128)] * 10 + [(64, 96)] * 10
    assert np.abs(frames[-1].image.astype(int) - picture(9, 64, 96)).mean() < 12
    assert [frame.time for frame in frames] == pytest.approx([index / 25 for index in range(20)], abs=1e-3)
    assert {frame.size for frame in open_video(path, resize=(32, 48))} == {(32, 48)}
