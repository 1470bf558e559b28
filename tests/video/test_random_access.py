"""Random access: each frame equals the one from streaming, for any rotation or codec."""

from __future__ import annotations

import pickle
from pathlib import Path

import av
import numpy as np
import pytest
from av.bitstream import BitStreamFilterContext

from clips import clip, is_picture, written
from stmg.errors import VideoError
from stmg.video.random_access import IndexedVideo
from stmg.video.sources import open_video


@pytest.mark.parametrize(("b_frames", "rotation"), [(0, 0), (2, 0), (0, -90), (0, 90), (0, 180)])
def test_frames_in_any_order_are_those_of_the_stream(tmp_path: Path, b_frames: int, rotation: int) -> None:
    path = clip(tmp_path / "clip.mp4", 30, bf=str(b_frames), rotation=rotation)
    video, frames = IndexedVideo(path), list(open_video(path))
    assert (len(video), video.fps, video.size) == (30, 25, frames[0].size)
    for index in (29, 0, 13, 12, 11, 1):
        assert np.array_equal(video.read(index), frames[index].image)
    if not rotation:
        assert is_picture(video.read(7), 7)


def test_a_process_gets_it_as_it_is(tmp_path: Path) -> None:
    video = IndexedVideo(clip(tmp_path / "clip.mp4", 5))
    assert len(video) == 5
    copy = pickle.loads(pickle.dumps(video))
    assert np.array_equal(copy.read(3), video.read(3))


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(VideoError, match=r"none.mp4 cannot be read as a video"):
        len(IndexedVideo(tmp_path / "none.mp4"))
    with pytest.raises(VideoError, match=r"text.mp4 cannot be read as a video"):
        len(IndexedVideo(written(tmp_path / "text.mp4", b"hello, world\n" * 50)))
    raw = written(tmp_path / "raw.h264", b"")
    with av.open(str(clip(tmp_path / "clip.mp4", 3))) as source, raw.open("wb") as out:
        annex = BitStreamFilterContext("h264_mp4toannexb", source.streams.video[0])
        for packet in source.demux(video=0):
            out.writelines(bytes(filtered) for filtered in annex.filter(packet))
    with pytest.raises(VideoError, match=r"frames of .*raw.h264 have no times"):
        len(IndexedVideo(raw))


def test_a_name_with_a_colon_and_tags_in_another_encoding_do_not_matter(tmp_path, monkeypatch):
    path = clip(tmp_path / "12:30:00.mp4", 3)
    path.write_bytes(path.read_bytes().replace(b"Lavf", b"\xff\xfe\xe9\xe8"))
    monkeypatch.chdir(tmp_path)
    assert len(IndexedVideo(Path("12:30:00.mp4"))) == 3
    assert is_picture(IndexedVideo(Path("12:30:00.mp4")).read(2), 2)
