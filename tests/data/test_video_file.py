"""Video files as data: labels fit the upright frames, as training and streaming both show them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from clips import clip, is_picture
from stmg.data.video_file import VideoFile
from stmg.errors import DataError
from stmg.video.sources import open_video


def labels_of(path: Path, size: tuple[int, int]) -> Path:
    Image.fromarray(np.ones(size, np.uint8)).save(path)
    return path


def test_a_rotated_video_trains_as_it_streams(tmp_path: Path) -> None:
    path = clip(tmp_path / "phone.mp4", 5, size=(96, 128), rotation=-90)
    video = VideoFile(path, {3: labels_of(tmp_path / "3.png", (128, 96))})
    frames = list(open_video(path))
    assert np.array_equal(video.image(3), frames[3].image)
    truth = video.truth(3)
    assert truth is not None
    assert truth.shape == video.image(3).shape[:2] == (128, 96)
    small = next(iter(open_video(path, resize=(64, 48))))
    assert np.array_equal(video.image(0, (64, 48)), small.image)


def test_labels_that_lie_as_the_video_is_coded_are_refused(tmp_path: Path) -> None:
    path = clip(tmp_path / "phone.mp4", 5, size=(96, 128), rotation=-90)
    video = VideoFile(path, {3: labels_of(tmp_path / "3.png", (96, 128))})
    with pytest.raises(DataError, match=r"3\.png is 96x128, .*phone\.mp4 128x96"):
        video.truth(3)


def test_any_frame_of_a_transport_stream_is_read_by_its_number(tmp_path: Path) -> None:
    video = VideoFile(clip(tmp_path / "clip.ts", 30))
    assert len(video) == 30
    assert all(is_picture(video.image(index), index) for index in (29, 0, 13, 12, 24))
