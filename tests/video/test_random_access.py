"""Random access: each frame is the one that streaming gives, however it is rotated or coded."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

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
