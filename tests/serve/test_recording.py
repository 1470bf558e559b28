"""Recordings: complete segments within the limits, and a full disk stops nothing else."""

import json
import os
from pathlib import Path

import av
import pytest

from results import result
from stmg.serve.config import RecordConfig
from stmg.serve.recording import SegmentRecorder, remove_old_segments


class Clock:
    now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def record(config: RecordConfig, num_frames: int, step: float, stream: str = "gate") -> SegmentRecorder:
    clock = Clock()
    recorder = SegmentRecorder(config, stream, ("a", "b"), clock)
    for index in range(num_frames):
        recorder.write(result(index))
        clock.now += step
    recorder.close()
    return recorder


def test_segments_hold_every_frame_once(tmp_path: Path):
    recorder = record(RecordConfig(folder=str(tmp_path), minutes=1), 10, step=15.0)
    assert recorder.state == "recording"
    videos, records = sorted(tmp_path.glob("gate/*.mp4")), sorted(tmp_path.glob("gate/*.jsonl"))
    assert len(videos) == len(records) == 3  # of four, four and two frames
    lines = [json.loads(line) for path in records for line in path.read_text().splitlines()]
    assert [line["index"] for line in lines] == list(range(10))
    assert "areas" in lines[0]
    counts = []
    for path in videos:
        with av.open(str(path)) as container:
            counts.append(sum(1 for _ in container.decode(video=0)))
    assert counts == [4, 4, 2]


def make_segments(folder: Path, count: int, size: int) -> list[Path]:
    paths = []
    for number in range(count):
        path = folder / f"stream{number % 2}" / f"20260101T00000000000{number}Z.mp4"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(bytes(size))
        os.utime(path, (1000 + number, 1000 + number))
        paths.append(path)
    return paths


def test_the_oldest_segments_of_all_streams_go_when_there_is_too_much(tmp_path: Path):
    paths = make_segments(tmp_path, 6, 1000)
    remove_old_segments(RecordConfig(folder=str(tmp_path), gigabytes=3.5e-6, hours=1e6), now=1010)
    assert [path.exists() for path in paths] == [False] * 3 + [True] * 3


def test_segments_go_when_they_are_too_old(tmp_path: Path):
    paths = make_segments(tmp_path, 4, 10)
    others = [tmp_path / "stream0" / name for name in ("notes.txt", "overlay.mp4", "records.jsonl")]
    for path in others:
        path.write_text("of somebody else")
        os.utime(path, (1, 1))
    remove_old_segments(RecordConfig(folder=str(tmp_path), hours=1), now=1001.5 + 3600)
    assert [path.exists() for path in paths] == [False, False, True, True]
    assert all(path.exists() for path in others)


def test_the_newest_segment_of_each_stream_stays_as_it_may_be_open(tmp_path: Path):
    paths = make_segments(tmp_path, 4, 1000)
    remove_old_segments(RecordConfig(folder=str(tmp_path), gigabytes=1e-9), now=1010)
    assert [path.exists() for path in paths] == [False, False, True, True]


def test_what_may_not_be_listed_or_removed_stays_and_stops_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    paths = make_segments(tmp_path, 5, 1000)
    (tmp_path / "lost+found").mkdir()
    denied = {tmp_path / "lost+found", paths[0]}

    def deny(method):
        def checked(path, *args, **kwargs):
            if path in denied:
                raise PermissionError(13, "Permission denied")
            return method(path, *args, **kwargs)

        return checked

    monkeypatch.setattr(Path, "iterdir", deny(Path.iterdir))
    monkeypatch.setattr(Path, "unlink", deny(Path.unlink))
    config = RecordConfig(folder=str(tmp_path), gigabytes=3.5e-6, hours=1e6)
    remove_old_segments(config, now=1010)
    assert [path.exists() for path in paths] == [True, False, False, True, True]
    assert record(config, 1, step=1.0).state == "recording"


def test_what_cannot_be_written_is_reported_and_tried_again(tmp_path: Path):
    (tmp_path / "file").touch()
    clock = Clock()
    recorder = SegmentRecorder(RecordConfig(folder=str(tmp_path / "file")), "gate", clock=clock)
    recorder.write(result(0))
    assert recorder.state.startswith("not recording")
    (tmp_path / "file").unlink()
    recorder.write(result(1))
    assert recorder.state.startswith("not recording")  # not at every frame
    clock.now += 31
    recorder.write(result(2))
    recorder.close()
    assert recorder.state == "recording"
    assert len(list(tmp_path.glob("file/gate/*.jsonl"))) == 1
