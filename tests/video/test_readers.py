"""Readers: folders of images, single images, and cameras."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from clips import picture, written
from stmg.errors import SourceLostError, VideoError
from stmg.video.sources import open_video


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


def test_gray_deep_and_transparent_images_of_any_size_become_rgb(tmp_path: Path) -> None:
    cv2.imwrite(str(tmp_path / "1.png"), np.full((4, 6), 77, np.uint8))
    cv2.imwrite(str(tmp_path / "2.png"), np.full((5, 7), 0x1234, np.uint16))
    cv2.imwrite(str(tmp_path / "3.png"), np.full((6, 8, 4), (1, 2, 3, 0), np.uint8))
    cv2.imwrite(str(tmp_path / "4.tif"), np.full((7, 9, 3), (0x100, 0x200, 0x300), np.uint16))
    frames = list(open_video(tmp_path))
    assert [tuple(frame.image[-1, -1]) for frame in frames] == [(77,) * 3, (0x12,) * 3, (3, 2, 1), (3, 2, 1)]
    assert [frame.size for frame in frames] == [(4, 6), (5, 7), (6, 8), (7, 9)]
    assert {frame.image.dtype for frame in frames} == {np.dtype(np.uint8)}


def test_a_photograph_marked_as_rotated_comes_upright(tmp_path: Path) -> None:
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


class FakeCamera:
    """Twelve frames, twenty milliseconds apart by a clock of its own; then the cable is pulled."""

    def __init__(self, number: int) -> None:
        self.number, self.grabbed, self.retrieved, self.released = number, 0, 0, False
        self.now = 100.0
        FakeCamera.latest = self

    def isOpened(self) -> bool:  # noqa: N802
        return self.number == 0

    def get(self, key: int) -> float:
        return {cv2.CAP_PROP_FRAME_HEIGHT: 4, cv2.CAP_PROP_FRAME_WIDTH: 6, cv2.CAP_PROP_FPS: 50}[key]

    def grab(self) -> bool:
        self.now += 0.02
        self.grabbed += 1
        return self.grabbed <= 12

    def retrieve(self) -> tuple[bool, NDArray[np.uint8]]:
        self.retrieved += 1
        return True, np.full((4, 6, 3), (0, 0, self.grabbed), np.uint8)

    def release(self) -> None:
        self.released = True


@pytest.mark.parametrize("name", [0, "camera:0", "/dev/video0"])
def test_a_camera_is_live_and_an_error_comes_after_the_frames_before_it(
    monkeypatch: pytest.MonkeyPatch, name: str | int
) -> None:
    monkeypatch.setattr(cv2, "VideoCapture", FakeCamera)
    monkeypatch.setattr("stmg.video.readers.time", SimpleNamespace(monotonic=lambda: FakeCamera.latest.now))
    frames = []
    with open_video(name, every=3) as source:
        assert (source.live, source.size, source.num_frames) == (True, (4, 6), None)
        with pytest.raises(VideoError, match="camera 0 delivers no more frames"):
            frames.extend(source)
    assert [frame.index for frame in frames] == [0, 3, 6, 9]
    assert [tuple(frame.image[0, 0]) for frame in frames] == [(index + 1, 0, 0) for index in (0, 3, 6, 9)]
    assert [frame.time for frame in frames] == pytest.approx([0.02, 0.08, 0.14, 0.2])
    assert FakeCamera.latest.retrieved == 4
    assert FakeCamera.latest.released


def test_a_folder_has_the_size_of_its_first_image(tmp_path):
    cv2.imwrite(str(tmp_path / "1.png"), np.zeros((6, 8, 3), np.uint8))
    cv2.imwrite(str(tmp_path / "2.png"), np.zeros((3, 4, 3), np.uint8))
    with open_video(tmp_path) as source:
        assert source.size == (6, 8)
    (tmp_path / "0.png").write_bytes(b"not an image")
    with open_video(tmp_path) as source:
        assert source.size is None


class LooseCamera(FakeCamera):
    """Some of its frames cannot be decoded, and it does not know its rate."""

    broken = range(3, 5)

    def get(self, key: int) -> float:
        return -1.0 if key == cv2.CAP_PROP_FPS else super().get(key)

    def grab(self) -> bool:
        self.grabbed += 1
        return self.grabbed <= 300

    def retrieve(self) -> tuple[bool, NDArray[np.uint8] | None]:  # type: ignore[override]
        return super().retrieve() if self.grabbed not in self.broken else (False, None)


def test_a_frame_of_a_camera_that_cannot_be_decoded_is_skipped_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cv2, "VideoCapture", LooseCamera)
    frames = []
    with open_video(0, ahead=999) as source:
        assert source.fps is None
        with pytest.raises(SourceLostError, match="delivers no more frames"):
            frames.extend(source)
    assert [frame.index for frame in frames[:4]] == [0, 1, 4, 5]
    assert source.damaged == "camera 0: 2 damaged frames were skipped"


@pytest.mark.parametrize(("first", "error"), [(1, VideoError), (3, SourceLostError)])
def test_a_camera_of_which_nothing_decodes_any_more_is_given_up(
    monkeypatch: pytest.MonkeyPatch, first: int, error: type[VideoError]
) -> None:
    monkeypatch.setattr(LooseCamera, "broken", range(first, 999))
    monkeypatch.setattr(cv2, "VideoCapture", LooseCamera)
    with open_video(0) as source, pytest.raises(VideoError, match="cannot be decoded, 100 in a row") as caught:
        list(source)
    assert type(caught.value) is error
    assert LooseCamera.latest.grabbed == first + 99
