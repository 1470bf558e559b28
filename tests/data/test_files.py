"""Image and label files: their headers are not trusted."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from clips import clip, is_picture
from stmg.data.files import LabelCode, VideoFile, image_size, read_image, read_labels
from stmg.errors import DataError, VideoError
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


def claim(path: Path, side: int) -> Path:
    """A PNG of a few bytes that says it is so large."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0")) + chunk(b"IEND", b"")
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + body)
    return path


@pytest.mark.parametrize("read", [read_labels, read_image, image_size, LabelCode(3).read])
def test_an_image_that_claims_to_be_huge_is_refused_before_it_is_read(tmp_path, read) -> None:
    for side in (30_000, 2**31 - 1):
        with pytest.raises(DataError, match=r"large\.png"):
            read(claim(tmp_path / "large.png", side))


def test_a_folder_of_such_images_says_so(tmp_path) -> None:
    claim(tmp_path / "large.png", 30_000)
    with pytest.raises(VideoError, match=r"holds no image that can be read.*too large"):
        list(open_video(tmp_path))
    Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save(tmp_path / "small.png")
    source = open_video(tmp_path)
    assert len(list(source)) == 1
    assert "1 images were skipped" in source.damaged


def test_of_a_broken_image_only_the_error_is_reported(tmp_path, capfd) -> None:
    path = tmp_path / "cut.png"
    Image.new("RGB", (8, 8)).save(path)
    path.write_bytes(path.read_bytes()[:8])
    with pytest.raises(DataError, match=r"cut\.png cannot be read as an image"):
        read_image(path)
    assert capfd.readouterr() == ("", "")
