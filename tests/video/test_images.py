"""Folders of images, and single ones."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest
from PIL import Image

from clips import picture, written
from stmg.video import VideoError, open_video


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
