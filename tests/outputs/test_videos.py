"""Overlay videos play, even after the process was killed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from results import result, write_frames
from stmg.data.synthetic.scene import Scene
from stmg.errors import SettingsError
from stmg.jobs.parts import join_videos
from stmg.outputs import videos
from stmg.outputs.videos import OverlayVideo, write_h264
from stmg.video.sources import open_video
from waiting import PATIENCE
from zoo import panning


def decoded(path: Path) -> list[Any]:
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        return [
            (float(frame.pts * stream.time_base), frame.to_ndarray(format="rgb24"))
            for packet in container.demux(stream)
            for frame in packet.decode()
        ]


@pytest.mark.parametrize(("ending", "codec"), [("mp4", "h264"), ("mkv", "h264"), ("webm", "vp9"), ("avi", "mpeg4")])
def test_an_overlay_video_plays_back(tmp_path: Path, ending: str, codec: str) -> None:
    path = tmp_path / "made" / f"overlay.{ending}"
    with OverlayVideo(path, fps=25) as sink:
        write_frames(sink, 60)
    frames = decoded(path)
    assert [time for time, _ in frames] == pytest.approx([index / 25 for index in range(60)], abs=2e-3)
    for index in (0, 30, 59):
        difference = frames[index][1].astype(int) - result(index).plot(0.5)
        assert np.abs(difference).mean() < 12
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        assert (stream.codec_context.name, stream.codec_context.pix_fmt) == (codec, "yuv420p")


def test_frames_without_times_follow_at_the_frame_rate(tmp_path: Path) -> None:
    with OverlayVideo(tmp_path / "overlay.mp4", fps=12.5) as sink:
        for index in range(10):
            sink.write(result(index, time=None))
    assert [time for time, _ in decoded(tmp_path / "overlay.mp4")] == pytest.approx(np.arange(10) / 12.5, abs=1e-3)


def test_times_may_be_uneven_and_never_run_backwards(tmp_path: Path) -> None:
    given = [7.0, 7.1, 9.0, 9.0, 8.5, 9.6]
    with OverlayVideo(tmp_path / "overlay.mp4", fps=10) as sink:
        for index, time in enumerate(given):
            sink.write(result(index, time=time))
    shown = [time for time, _ in decoded(tmp_path / "overlay.mp4")]
    assert shown == pytest.approx([0, 0.1, 2.0, 2.1, 2.2, 2.6], abs=1e-3)


def test_a_source_that_was_opened_again_goes_on_at_its_own_pace(tmp_path: Path) -> None:
    with OverlayVideo(tmp_path / "overlay.mp4", fps=10) as sink:
        for index, time in enumerate([7.0, 7.5, 9.0, 0.0, 0.5, 1.5]):
            sink.write(result(index, time=time))
    shown = [time for time, _ in decoded(tmp_path / "overlay.mp4")]
    assert shown == pytest.approx([0, 0.5, 2.0, 2.1, 2.6, 3.6], abs=1e-3)


def test_odd_sizes_are_padded_by_their_edge_and_later_sizes_brought_to_the_first(tmp_path: Path) -> None:
    with OverlayVideo(tmp_path / "overlay.mp4", fps=25) as sink:
        sink.write(
            result(
                0,
                (31, 47),
                image=np.full((31, 47, 3), 200, np.uint8),
                labels=np.full((31, 47), 255, np.uint8),
            )
        )
        sink.write(result(1, (60, 90)))
    (_, first), (_, second) = decoded(tmp_path / "overlay.mp4")
    assert first.shape == second.shape == (32, 48, 3)
    assert np.abs(first.astype(int) - 200).max() < 8


KILLED = """
import os, sys
sys.path.insert(0, sys.argv[2])
from results import write_frames
from stmg.outputs.videos import OverlayVideo
sink = OverlayVideo(sys.argv[1], fps=25)
write_frames(sink, 110)
os._exit(9)
"""


@pytest.mark.parametrize("ending", ["mp4", "mkv"])
def test_a_killed_process_leaves_a_video_that_plays(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"overlay.{ending}"
    command = [sys.executable, "-c", KILLED, str(path), str(Path(__file__).parents[1])]
    assert subprocess.run(command, timeout=PATIENCE, check=False).returncode == 9
    frames = decoded(path)
    assert len(frames) >= 50  # all but the last two seconds
    assert np.abs(frames[49][1].astype(int) - result(49).plot(0.5)).mean() < 12


def test_only_known_suffixes_and_sensible_numbers_are_accepted(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"ends in \.mp4, \.mkv, \.webm, \.avi"):
        OverlayVideo(tmp_path / "overlay.gif", fps=25)
    with pytest.raises(SettingsError, match="got fps=0"):
        OverlayVideo(tmp_path / "overlay.mp4", fps=0)
    with pytest.raises(SettingsError, match="opacity=2"):
        OverlayVideo(tmp_path / "overlay.mp4", fps=25, opacity=2)


def test_without_x264_mpeg4_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(videos, "_can_encode", lambda name: name == "mpeg4")
    with OverlayVideo(tmp_path / "overlay.mp4", fps=29.97) as sink:
        write_frames(sink, 5)
    assert len(decoded(tmp_path / "overlay.mp4")) == 5
    with pytest.raises(SettingsError, match="lacks libvpx-vp9 and libvpx"):
        OverlayVideo(tmp_path / "overlay.webm", fps=25)


def test_whatever_a_full_disk_left_of_the_last_seconds_an_mp4_plays_what_came_before(tmp_path: Path) -> None:
    path = tmp_path / "overlay.mp4"
    with OverlayVideo(path, fps=25) as sink:
        write_frames(sink, 120)
    data = path.read_bytes()
    videos.drop_broken_header(path)
    assert path.read_bytes() == data
    last = data.rindex(b"moof") - 4  # of the fifth of its fragments, a second each
    header = int.from_bytes(data[last : last + 4])
    for end in (last, last + 1, last + 7, last + 8, last + header // 2, last + header - 1):
        path.write_bytes(data[:end])
        videos.drop_broken_header(path)
        assert len(decoded(path)) == 100
    path.write_bytes(data[: last + header + 20])
    videos.drop_broken_header(path)
    assert path.stat().st_size == last + header + 20


@pytest.mark.parametrize("ending", ["mp4", "mkv", "avi"])
def test_after_a_gap_that_no_video_has_the_frames_follow_at_once(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"overlay.{ending}"
    with OverlayVideo(path, fps=10) as sink:
        for index, time in enumerate([0.0, 0.1, 40000.0, 40000.1, 40000.2, 7.0, 7.1]):
            sink.write(result(index, time=time))
    assert [time for time, _ in decoded(path)] == pytest.approx(np.arange(7) / 10, abs=2e-3)


def test_a_gap_of_some_minutes_stays(tmp_path: Path) -> None:
    with OverlayVideo(tmp_path / "overlay.mp4", fps=10) as sink:
        for index, time in enumerate([0.0, 0.1, 1800.0, 1800.1]):
            sink.write(result(index, time=time))
    shown = [time for time, _ in decoded(tmp_path / "overlay.mp4")]
    assert shown == pytest.approx([0.0, 0.1, 1800.0, 1800.1], abs=1e-3)


def test_videos_of_parts_are_joined_as_the_whole_would_have_been_written(tmp_path: Path) -> None:
    times = [0.0, 0.1, 0.5, 0.6, 40000.0, 40000.1]
    parts, starts = [], [0.0, 0.5, 40000.0]
    for number in range(3):
        parts.append(tmp_path / f"{number}.mp4")
        with OverlayVideo(parts[-1], fps=10) as sink:
            for index in (2 * number, 2 * number + 1):
                sink.write(result(index, time=times[index]))
    with OverlayVideo(tmp_path / "whole.mp4", fps=10) as sink:
        for index, time in enumerate(times):
            sink.write(result(index, time=time))
    join_videos(parts, starts, tmp_path / "joined.mp4")
    shown = [[time for time, _ in decoded(tmp_path / name)] for name in ("joined.mp4", "whole.mp4")]
    assert shown[0] == pytest.approx(shown[1], abs=1e-3)
    assert shown[0] == pytest.approx([0.0, 0.1, 0.5, 0.6, 0.7, 0.8], abs=1e-3)


def test_a_video_has_the_images_at_their_rate(tmp_path: Path) -> None:
    images = panning(5)
    write_h264(tmp_path / "pan.mp4", iter(images), fps=29.97, quality=16)
    with open_video(tmp_path / "pan.mp4") as video:
        assert abs(video.fps - 29.97) < 0.01
        frames = [frame.image for frame in video]
    assert len(frames) == len(images)
    assert all(np.abs(a.astype(int) - b).mean() < 8 for a, b in zip(images, frames, strict=True))


def test_the_same_images_make_the_same_file(tmp_path: Path) -> None:
    """Figures of a rendered street are those of its video, so they can be produced again."""
    scene, files = Scene(), set()
    images = [scene.frame(index)[0] for index in range(40)]
    for _ in range(4):
        write_h264(tmp_path / "pan.mp4", iter(images), fps=30, quality=16)
        files.add((tmp_path / "pan.mp4").read_bytes())
    assert len(files) == 1
