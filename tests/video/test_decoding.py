"""Decoding: every frame arrives in order, upright, and damage is reported."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

from clips import clip, is_picture, picture, written
from stmg.errors import VideoError
from stmg.video.random_access import IndexedVideo
from stmg.video.sources import open_video


@pytest.mark.parametrize("ending", ["mp4", "mkv", "ts", "avi"])
def test_a_file_gives_every_frame_in_order_with_its_time(tmp_path: Path, ending: str) -> None:
    with open_video(clip(tmp_path / f"clip.{ending}")) as source:
        assert (source.fps, source.num_frames, source.size) == (25, 30, (96, 128))
        assert not source.live
        frames = list(source)
    assert [frame.index for frame in frames] == list(range(30))
    assert [frame.time for frame in frames] == pytest.approx([index / 25 for index in range(30)], abs=1e-3)
    assert all(is_picture(frame.image, frame.index or 0) for frame in frames)
    assert all(frame.image.flags.c_contiguous for frame in frames)
    assert source.damaged is None
    assert source.dropped == 0
    assert next(source, None) is None


@pytest.mark.parametrize("rotation", [-90, 90, 180])
def test_a_rotated_video_comes_upright(tmp_path: Path, rotation: int) -> None:
    path = clip(tmp_path / "phone.mp4", 2, rotation=rotation)
    upright = [np.rot90(picture(index), rotation // 90) for index in range(2)]
    with open_video(path) as source:
        assert source.size == upright[0].shape[:2]
        frames = list(source)
    for frame, expected in zip(frames, upright, strict=True):
        assert frame.size == expected.shape[:2]
        assert frame.image.flags.c_contiguous
        assert np.abs(frame.image.astype(int) - expected).mean() < 12


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
    start, size = packets[15]
    data[start : start + size] = b"\xff" * size
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


def test_a_file_of_which_nothing_decodes_is_an_error(tmp_path: Path) -> None:
    path = clip(tmp_path / "clip.mp4", 12)
    with av.open(str(path)) as container:
        packets = [(packet.pos, packet.size) for packet in container.demux(video=0) if packet.size]
    data = bytearray(path.read_bytes())
    for start, size in packets:
        data[start : start + size] = b"\xff" * size
    path.write_bytes(data)
    with pytest.raises(VideoError, match="no frame that can be decoded"):
        list(open_video(path))


def test_frames_keep_their_size_when_it_changes(tmp_path: Path) -> None:
    parts = [clip(tmp_path / "one.ts", 10), clip(tmp_path / "two.ts", 10, size=(64, 96))]
    path = written(tmp_path / "joined.ts", b"".join(part.read_bytes() for part in parts))
    frames = list(open_video(path))
    assert [frame.size for frame in frames] == [(96, 128)] * 10 + [(64, 96)] * 10
    assert np.abs(frames[-1].image.astype(int) - picture(9, 64, 96)).mean() < 12
    assert [frame.time for frame in frames] == pytest.approx([index / 25 for index in range(20)], abs=1e-3)
    assert {frame.size for frame in open_video(path, resize=(32, 48))} == {(32, 48)}


def record(
    path: Path, times: list[int], *, last: int = 40, sound: float = 0.0, rate: int = 25, tick: int = 1000
) -> Path:
    """A video with frames at these times, the last shown for `last`, all in ticks, with so many seconds of sound."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libvpx" if path.suffix == ".webm" else "libx264", rate=rate)
        stream.height, stream.width, stream.pix_fmt = 48, 64, "yuv420p"
        stream.codec_context.time_base = Fraction(1, tick)
        audio = container.add_stream("libopus" if path.suffix == ".webm" else "aac", rate=48000) if sound else None
        packets = []
        for index, time in enumerate(times):
            frame = av.VideoFrame.from_ndarray(picture(index, 48, 64), format="rgb24")
            frame.pts, frame.time_base = time, Fraction(1, tick)
            packets += stream.encode(frame)
        packets += stream.encode(None)
        packets[-1].duration = last
        container.mux(packets)
        for start in range(0, int(48000 * sound), 960) if audio is not None else ():
            silence = av.AudioFrame.from_ndarray(np.zeros((1, 960), np.int16), format="s16", layout="mono")
            silence.sample_rate, silence.pts = 48000, start
            container.mux(audio.encode(silence))
        if audio is not None:
            container.mux(audio.encode(None))
    return path


SECOND = list(range(0, 1000, 40))


@pytest.mark.parametrize("ending", ["mkv", "webm", "mp4"])
@pytest.mark.parametrize("begin", [0, 3000])
def test_a_video_is_complete_though_its_sound_is_longer_or_begins_before_it(
    tmp_path: Path, ending: str, begin: int
) -> None:
    path = record(tmp_path / f"clip.{ending}", [begin + time for time in SECOND], sound=5.0)
    with open_video(path) as source:
        assert source.num_frames == 25
        assert len(list(source)) == 25
    assert source.damaged is None


def test_where_only_the_whole_file_has_a_length_a_shorter_video_is_complete(tmp_path: Path) -> None:
    with open_video(record(tmp_path / "clip.flv", SECOND, sound=5.0)) as source:
        assert source.num_frames == pytest.approx(125, abs=5)  # an estimate is better than none
        assert len(list(source)) == 25
    assert source.damaged is None


@pytest.mark.parametrize(("ending", "length"), [("mkv", "4.0"), ("flv", "6.1")])  # FLV has one length for all
def test_a_cut_file_with_sound_says_so(tmp_path: Path, ending: str, length: str) -> None:
    path = record(tmp_path / f"clip.{ending}", list(range(0, 4000, 40)), sound=6.0)
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 4 // 10])
    with open_video(path) as source:
        list(source)
    assert source.damaged is not None
    assert f"of {length} seconds" in source.damaged


@pytest.mark.parametrize("ending", ["mkv", "mp4"])
@pytest.mark.parametrize("times", [[0], SECOND])
def test_a_last_frame_that_is_shown_for_long_is_no_damage(tmp_path: Path, ending: str, times: list[int]) -> None:
    with open_video(record(tmp_path / f"still.{ending}", times, last=5000)) as source:
        assert len(list(source)) == len(times)
    assert source.damaged is None


def test_a_rate_that_no_video_has_is_not_believed(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    times = np.cumsum(random.integers(1800, 5400, 60)).tolist()
    path = record(tmp_path / "jitter.ts", times, tick=90000)
    with av.open(str(path)) as container:
        assert container.streams.video[0].guessed_rate > 1000  # FFmpeg's ticks
    with open_video(path) as source:
        assert (source.fps, source.num_frames) == (None, None)
        assert len(list(source)) == 60
    with open_video(path, fps=25) as source:
        assert source.fps == 25
        assert source.num_frames == pytest.approx(60, abs=15)
    assert IndexedVideo(path).fps is None


def test_a_video_goes_by_its_own_rate(tmp_path: Path) -> None:
    with open_video(clip(tmp_path / "clip.mp4"), fps=50) as source:
        assert source.fps == 25
