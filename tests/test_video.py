"""Sources: every frame arrives in order, live ones drop the oldest, and no thread outlives its source."""

from __future__ import annotations

import gc
import io
import os
import socket
import subprocess
import sys
import threading
import time
import wave
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import av
import cv2
import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from stmg import container
from stmg.video import VideoError, open_video

STEP = 4  # pixels the picture moves to the right from frame to frame
TEXTURE = np.random.default_rng(0).integers(0, 255, (48, 100, 3), np.uint8).repeat(8, 0).repeat(8, 1)


def picture(index: int, height: int = 96, width: int = 128) -> NDArray[np.uint8]:
    left = TEXTURE.shape[1] - width - STEP * index
    return np.ascontiguousarray(TEXTURE[:height, left : left + width])


def clip(path: Path, num_frames: int = 30, size: tuple[int, int] = (96, 128), **options: str) -> Path:
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=25)
        stream.height, stream.width = size
        stream.pix_fmt = "yuv420p"
        stream.options = {"crf": "10", "g": "12", "bf": "0", **options}
        for index in range(num_frames):
            frame = av.VideoFrame.from_ndarray(picture(index, *size), format="rgb24")
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path


def is_picture(image: NDArray[np.uint8], index: int) -> bool:
    """Whether an image is the picture of this index and not of the one before or after."""
    errors = [np.abs(image.astype(int) - picture(near)).mean() for near in (index - 1, index, index + 1) if near >= 0]
    return bool(np.argmin(errors) == min(index, 1))


def decoding_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "decode"]


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    yield
    gc.collect()
    deadline = time.monotonic() + 5
    while decoding_threads() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert decoding_threads() == []


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


def written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


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


# --- images


def test_a_folder_is_read_in_natural_order(tmp_path: Path) -> None:
    for index in (10, 2, 1, 30):
        cv2.imwrite(str(tmp_path / f"frame{index}.png"), np.full((4, 6, 3), (0, 0, index), np.uint8))
    written(tmp_path / "notes.txt", b"no image")
    written(tmp_path / "._frame0.png", b"what a Mac leaves behind")
    with open_video(tmp_path) as source:
        assert (source.num_frames, source.fps) == (4, None)
        frames = list(source)
    assert [tuple(frame.image[0, 0]) for frame in frames] == [(index, 0, 0) for index in (1, 2, 10, 30)]
    assert [(frame.index, frame.time) for frame in frames] == [(index, None) for index in range(4)]
    timed = list(open_video(str(tmp_path / "frame*0.png"), fps=10, every=1))
    assert [(frame.image[0, 0, 0], frame.time) for frame in timed] == [(10, 0.0), (30, 0.1)]
    skipped = open_video(tmp_path, fps=10, every=2)
    assert skipped.num_frames == 2
    assert [(frame.index, frame.time) for frame in skipped] == [(0, 0.0), (2, 0.2)]


def test_grey_deep_and_transparent_images_of_any_size_become_rgb(tmp_path: Path) -> None:
    cv2.imwrite(str(tmp_path / "1.png"), np.full((4, 6), 77, np.uint8))
    cv2.imwrite(str(tmp_path / "2.png"), np.full((5, 7), 0x1234, np.uint16))
    cv2.imwrite(str(tmp_path / "3.png"), np.full((6, 8, 4), (1, 2, 3, 0), np.uint8))
    cv2.imwrite(str(tmp_path / "4.tif"), np.full((7, 9, 3), (0x100, 0x200, 0x300), np.uint16))
    frames = list(open_video(tmp_path))
    assert [tuple(frame.image[-1, -1]) for frame in frames] == [(77,) * 3, (0x12,) * 3, (3, 2, 1), (3, 2, 1)]
    assert [frame.size for frame in frames] == [(4, 6), (5, 7), (6, 8), (7, 9)]
    assert {frame.image.dtype for frame in frames} == {np.dtype(np.uint8)}


def test_a_photograph_marked_as_turned_comes_upright(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned clockwise by a quarter
    Image.fromarray(picture(0)).save(tmp_path / "photo.jpg", exif=exif, quality=95, subsampling=0)
    (frame,) = open_video(tmp_path / "photo.jpg")
    assert np.abs(frame.image.astype(int) - np.rot90(picture(0), -1)).mean() < 12


def test_unreadable_images_are_skipped_and_counted(tmp_path: Path) -> None:
    for index in range(3):
        cv2.imwrite(str(tmp_path / f"{index}.png"), np.full((4, 6), index, np.uint8))
    written(tmp_path / "1.png", b"broken")
    with open_video(tmp_path) as source:
        assert [frame.index for frame in source] == [0, 2]
    assert source.damaged is not None
    assert "1 images were skipped" in source.damaged
    assert "1.png" in source.damaged
    with pytest.raises(VideoError, match=r"no image that can be read; .*1\.png"):
        list(open_video(tmp_path / "1.png"))


# --- standard input

READ_STDIN = """
import sys, time
from stmg.video import open_video
with open_video("-", ahead=999) as source:
    print(*(next(source).index for _ in range(int(sys.argv[1]))))
    time.sleep(0.5)  # until the decoding thread has read all there is, and waits
"""


def reading_process(num_frames: int) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": str(Path(container.__file__).parents[1])}
    command = [sys.executable, "-c", READ_STDIN, str(num_frames)]
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    )


def test_a_pipe_is_read_to_its_end(tmp_path: Path) -> None:
    output, errors = reading_process(30).communicate(clip(tmp_path / "clip.ts").read_bytes(), timeout=30)
    assert [int(index) for index in output.split()] == list(range(30))
    assert errors == b""


def test_a_process_that_read_enough_of_an_open_pipe_ends(tmp_path: Path) -> None:
    process = reading_process(2)
    assert process.stdin is not None
    process.stdin.write(clip(tmp_path / "clip.ts", 150).read_bytes())
    process.stdin.flush()
    assert process.wait(timeout=30) == 0  # though nobody closed its standard input
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


# --- live sources


class Server:
    """Sends each of its files to one connection after the other, then refuses more."""

    def __init__(self, *files: bytes, hold: float = 0.0) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"tcp://127.0.0.1:{self._socket.getsockname()[1]}"
        self._files, self._hold = files, hold
        self.thread = threading.Thread(target=self._serve)
        self.thread.start()

    def _serve(self) -> None:
        with self._socket:
            for data in self._files:
                connection, _ = self._socket.accept()
                with connection:
                    connection.sendall(data)
                    time.sleep(self._hold)


def test_a_live_stream_drops_the_oldest_frames_for_a_slow_consumer(tmp_path: Path) -> None:
    server = Server(clip(tmp_path / "clip.ts", 60).read_bytes())
    indices = []
    with open_video(server.url, retries=0, ahead=3) as source:
        assert source.live
        assert source.num_frames is None
        indices.append(next(source).index)
        deadline = time.monotonic() + 20
        while source.dropped < 56 and time.monotonic() < deadline:  # sixty less one taken and three waiting
            time.sleep(0.01)
        with pytest.raises(VideoError, match="broke off"):
            indices.extend(frame.index for frame in source)
    server.thread.join()
    assert indices[1:] == [57, 58, 59]
    assert source.dropped == 60 - len(indices)


def test_a_live_stream_is_opened_again_and_its_time_goes_on(tmp_path: Path) -> None:
    data = clip(tmp_path / "clip.ts", 20).read_bytes()
    server = Server(data, data)
    frames = []
    source = open_video(server.url, retries=1, ahead=100, motion_vectors=True)
    with source, pytest.raises(VideoError, match="1 attempts"):
        frames.extend(source)
    server.thread.join()
    assert [frame.index for frame in frames] == list(range(40))
    times = [frame.time or 0.0 for frame in frames]
    assert all(before < after for before, after in pairwise(times))
    assert 1.0 < times[20] < 9.0  # a second of waiting shows, on top of the 0.8 s that came at once
    assert frames[20].vectors is not None
    assert frames[20].vectors.reference is None


def test_closing_does_not_wait_for_a_silent_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(container, "NETWORK_TIMEOUT", 3.0)
    server = Server(clip(tmp_path / "clip.ts", 150).read_bytes(), hold=3.5)
    with open_video(server.url) as source:
        next(source)
        time.sleep(0.3)  # until all there is has been read
        begun = time.monotonic()
    assert time.monotonic() - begun < 2.0
    server.thread.join()


class FakeCamera:
    """Twelve frames, twenty milliseconds apart; then the cable is pulled."""

    def __init__(self, number: int) -> None:
        self.number, self.grabbed, self.retrieved, self.released = number, 0, 0, False
        FakeCamera.latest = self

    def isOpened(self) -> bool:  # noqa: N802
        return self.number == 0

    def get(self, key: int) -> float:
        return {cv2.CAP_PROP_FRAME_HEIGHT: 4, cv2.CAP_PROP_FRAME_WIDTH: 6, cv2.CAP_PROP_FPS: 50}[key]

    def grab(self) -> bool:
        time.sleep(0.02)
        self.grabbed += 1
        return self.grabbed <= 12

    def retrieve(self) -> tuple[bool, NDArray[np.uint8]]:
        self.retrieved += 1
        return True, np.full((4, 6, 3), (0, 0, self.grabbed), np.uint8)

    def release(self) -> None:
        self.released = True


@pytest.mark.parametrize("name", [0, "camera:0", "/dev/video0"])
def test_a_camera_is_live_and_an_error_comes_after_the_frames_before_it(
    monkeypatch: pytest.MonkeyPatch, name: str | int
) -> None:
    monkeypatch.setattr(cv2, "VideoCapture", FakeCamera)
    frames = []
    with open_video(name, every=3) as source:
        assert (source.live, source.size, source.num_frames) == (True, (4, 6), None)
        with pytest.raises(VideoError, match="camera 0 delivers no more frames"):
            frames.extend(source)
    assert [frame.index for frame in frames] == [0, 3, 6, 9]
    assert [tuple(frame.image[0, 0]) for frame in frames] == [(index + 1, 0, 0) for index in (0, 3, 6, 9)]
    assert 0.19 < (frames[3].time or 0) < 2  # ten times two hundredths of a second, or a little more
    assert FakeCamera.latest.retrieved == 4
    assert FakeCamera.latest.released
