"""Sinks: each gets every result even if others fail, and a full disk leaves the files readable."""

from __future__ import annotations

import errno
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from results import PALETTE, result, write_frames
from stmg.errors import SettingsError
from stmg.outputs.images import MARKER, LabelImages
from stmg.outputs.records import Records
from stmg.outputs.sinks import Sink, Sinks
from stmg.outputs.timeline import Timeline
from stmg.outputs.videos import OverlayVideo
from stmg.streaming.result import FrameResult
from stmg.video.sources import open_video

FULL = Path("/dev/full")


def test_a_run_without_frames_leaves_no_broken_files(tmp_path: Path) -> None:
    with Sinks(OverlayVideo(tmp_path / "overlay.mp4", 25), Timeline(tmp_path / "timeline.png")):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_run_without_frames_or_that_is_refused_leaves_what_another_wrote(tmp_path: Path) -> None:
    def make() -> Sinks:
        return Sinks(Records(tmp_path / "records.jsonl"), LabelImages(tmp_path / "labels", PALETTE))

    with make() as sink:
        sink.write(result(0))
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with make():
        pass
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    assert len(before) == 3  # with the marker of the images
    with make() as sink:
        sink.write(result(1))
    assert json.loads((tmp_path / "records.jsonl").read_text())["index"] == 1
    assert [path.name for path in (tmp_path / "labels").glob("*.png")] == ["000001.png"]
    (tmp_path / "labels" / MARKER).unlink()
    with pytest.raises(SettingsError, match="stmg did not write"):
        make()
    assert json.loads((tmp_path / "records.jsonl").read_text())["index"] == 1


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
    assert len(list(labels.glob("*.png"))) == 600
