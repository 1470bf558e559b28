"""Sinks: what they write can be read back, also after a killed process or on a disk that is full."""

from __future__ import annotations

import errno
import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from PIL import Image

from results import PALETTE, result, write_frames
from stmg import sinks
from stmg.scheduler import Level
from stmg.sinks import LabelImages, OverlayVideo, Records, Sink, Sinks
from stmg.state import FrameResult
from stmg.timeline import Timeline
from stmg.video import open_video

FULL = Path("/dev/full")


def decoded(path: Path) -> list[Any]:
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        return [
            (float(frame.pts * stream.time_base), frame.to_ndarray(format="rgb24"))
            for packet in container.demux(stream)
            for frame in packet.decode()
        ]


# --- overlay video


@pytest.mark.parametrize(("ending", "codec"), [("mp4", "h264"), ("mkv", "h264"), ("webm", "vp9"), ("avi", "mpeg4")])
def test_an_overlay_video_plays_back(tmp_path: Path, ending: str, codec: str) -> None:
    path = tmp_path / "made" / f"overlay.{ending}"
    with OverlayVideo(path, fps=25) as sink:
        write_frames(sink, 60)
    frames = decoded(path)
    assert [time for time, _ in frames] == pytest.approx([index / 25 for index in range(60)], abs=2e-3)
    for index in (0, 30, 59):
        difference = frames[index][1].astype(int) - result(index).overlay(0.5)
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
    given = [7.0, 7.1, 9.0, 9.0, 2.0, 2.1, 9.5]
    with OverlayVideo(tmp_path / "overlay.mp4", fps=10) as sink:
        for index, time in enumerate(given):
            sink.write(result(index, time=time))
    shown = [time for time, _ in decoded(tmp_path / "overlay.mp4")]
    assert shown == pytest.approx([0, 0.1, 2.0, 2.1, 2.2, 2.3, 2.5], abs=1e-3)


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
from test_sinks import OverlayVideo, write_frames
sink = OverlayVideo(sys.argv[1], fps=25)
write_frames(sink, 110)
os._exit(9)
"""


@pytest.mark.parametrize("ending", ["mp4", "mkv"])
def test_a_killed_process_leaves_a_video_that_plays(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"overlay.{ending}"
    environment = {**os.environ, "PYTHONPATH": str(Path(sinks.__file__).parents[1])}
    command = [sys.executable, "-c", KILLED, str(path), str(Path(__file__).parent)]
    assert subprocess.run(command, env=environment, timeout=60, check=False).returncode == 9
    frames = decoded(path)
    assert len(frames) >= 50  # all but the last two seconds
    assert np.abs(frames[49][1].astype(int) - result(49).overlay(0.5)).mean() < 12


def test_only_known_endings_and_sensible_numbers_are_accepted(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"ends in \.mp4, \.mkv, \.webm, \.avi"):
        OverlayVideo(tmp_path / "overlay.gif", fps=25)
    with pytest.raises(ValueError, match="got fps=0"):
        OverlayVideo(tmp_path / "overlay.mp4", fps=0)
    with pytest.raises(ValueError, match="opacity=2"):
        OverlayVideo(tmp_path / "overlay.mp4", fps=25, opacity=2)


def test_without_x264_mpeg4_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sinks, "_can_encode", lambda name: name == "mpeg4")
    with OverlayVideo(tmp_path / "overlay.mp4", fps=29.97) as sink:
        write_frames(sink, 5)
    assert len(decoded(tmp_path / "overlay.mp4")) == 5
    with pytest.raises(ValueError, match="lacks libvpx-vp9 and libvpx"):
        OverlayVideo(tmp_path / "overlay.webm", fps=25)


def test_a_run_without_frames_leaves_no_broken_files(tmp_path: Path) -> None:
    with Sinks(OverlayVideo(tmp_path / "overlay.mp4", 25), Timeline(tmp_path / "timeline.png")):
        pass
    assert list(tmp_path.iterdir()) == []


# --- label images


def test_label_images_hold_class_ids_and_show_colours(tmp_path: Path) -> None:
    with LabelImages(tmp_path / "labels", PALETTE) as sink:
        sink.write(result(123))
        sink.write(result(1234567))
    assert sorted(path.name for path in (tmp_path / "labels").iterdir()) == ["000123.png", "1234567.png"]
    with Image.open(tmp_path / "labels" / "000123.png") as image:
        assert image.mode == "P"
        assert np.array_equal(np.asarray(image), result(123).labels)
        colours = np.asarray(image.convert("RGB"))
    assert [tuple(colours[place]) for place in ((5, 40), (5, 5), (0, 0))] == [
        (10, 20, 30),
        (200, 0, 0),
        (255,) * 3,
    ]


def test_255_is_white_whatever_the_palette(tmp_path: Path) -> None:
    with LabelImages(tmp_path, np.zeros((256, 3), np.uint8)) as sink:
        sink.write(result(0))
    with Image.open(tmp_path / "000000.png") as image:
        colours = np.asarray(image.convert("RGB"))
    assert (tuple(colours[0, 0]), tuple(colours[5, 5])) == ((255,) * 3, (0,) * 3)


def test_an_interrupted_label_image_is_not_there_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = LabelImages(tmp_path, PALETTE)
    sink.write(result(0))

    def no_room(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "replace", no_room)
    with pytest.raises(OSError, match="No space left"):
        sink.write(result(1))
    assert [path.name for path in tmp_path.iterdir()] == ["000000.png"]


# --- records


def test_records_are_complete_lines_at_any_moment(tmp_path: Path) -> None:
    path = tmp_path / "made" / "records.jsonl"
    sink = Records(path)
    for index in range(3):
        sink.write(result(index))
        assert len(path.read_text().splitlines()) == index + 1
    sink.write(result(3, time=None, drift=math.inf, cost=None, level=Level.PARTIAL, reason="größer"))
    sink.close()
    first, *_, last = (json.loads(line) for line in path.read_text(encoding="utf-8").splitlines())
    assert first == {
        "index": 0,
        "time": 0.0,
        "level": "key",
        "reason": "drift",
        "distortion": 0.12346,
        "drift": 0.25,
        "kept_blocks": 2,
        "keep": [1, 0, 1],
        "motion": "dis",
        "macs": 1000,
        "latency_ms": 12.346,
    }
    assert (last["time"], last["drift"], last["macs"]) == (None, None, None)
    assert (last["level"], last["reason"]) == ("partial", "größer")


# --- several sinks, full disks


class Failing(Sink):
    """Fails at everything, and counts."""

    def __init__(self, name: str) -> None:
        self.name, self.written, self.closed = name, 0, 0

    def write(self, result: FrameResult) -> None:
        self.written += 1
        raise OSError(f"{self.name} cannot write")

    def close(self) -> None:
        self.closed += 1
        raise OSError(f"{self.name} cannot close")


def test_all_sinks_get_everything_and_are_closed_though_some_fail(tmp_path: Path) -> None:
    first, second = Failing("first"), Failing("second")
    sink = Sinks(first, Records(tmp_path / "records.jsonl"), second)
    with pytest.raises(OSError, match="first cannot write"):
        sink.write(result(0))
    with pytest.raises(OSError, match="first cannot close"):
        sink.close()
    assert (second.written, second.closed) == (1, 1)
    assert len((tmp_path / "records.jsonl").read_text().splitlines()) == 1
    with pytest.raises(ValueError, match="closed"):
        sink.sinks[1].write(result(1))


def test_an_error_while_closing_does_not_hide_the_one_before() -> None:
    with pytest.raises(KeyError, match="the real one"), Failing("sink"):
        raise KeyError("the real one")
    with pytest.raises(OSError, match="cannot close"), Failing("sink"):
        pass


@pytest.mark.skipif(not FULL.exists(), reason="needs /dev/full")
@pytest.mark.parametrize("kind", ["overlay", "records"])
def test_a_full_disk_is_one_line_that_names_the_file(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"{kind}.mp4"
    path.symlink_to(FULL)
    sink: Sink = OverlayVideo(path, fps=25) if kind == "overlay" else Records(path)
    with pytest.raises(OSError, match="No space left") as caught:
        write_frames(sink, 100)
    assert caught.value.errno == errno.ENOSPC
    assert path.name in str(caught.value)
    assert "\n" not in str(caught.value)
    with pytest.raises(ValueError, match="closed"):
        sink.write(result(101))
    sink.close()


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """As a disk that is full once a file reaches this size."""
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_what_was_written_before_the_disk_filled_up_stays_readable(tmp_path: Path) -> None:
    video, records, labels = tmp_path / "overlay.mp4", tmp_path / "records.jsonl", tmp_path / "labels"
    parts = (OverlayVideo(video, fps=10), Records(records), LabelImages(labels, PALETTE))
    failures = []
    with largest_file(90_001):
        for index in range(600):
            for sink in parts:
                try:
                    sink.write(result(index, noise=True))
                except OSError as error:
                    failures.append(error)
                except ValueError:
                    assert failures
        for sink in parts:
            sink.close()
    assert [Path(error.filename).name for error in failures] == ["overlay.mp4", "records.jsonl"]
    assert {error.errno for error in failures} == {errno.EFBIG}
    assert len(list(open_video(video))) >= 19  # the first fragments
    lines = [json.loads(line) for line in records.read_text().splitlines()]
    assert [line["index"] for line in lines] == list(range(len(lines)))
    assert 90_001 - 250 < records.stat().st_size < 90_001
    assert len(list(labels.iterdir())) == 600
