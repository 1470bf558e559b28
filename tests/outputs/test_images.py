"""Folders of images: labels as PNGs that hold class ids; alpha and cutouts of networks with one channel."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import av
import numpy as np
import pytest
from PIL import Image

from results import PALETTE, result
from stmg.errors import SettingsError
from stmg.outputs.images import MARKER, AlphaImages, CutoutImages, LabelImages, parse_color
from stmg.outputs.videos import AlphaVideo
from stmg.streaming.result import FrameResult


def test_label_images_hold_class_ids_and_show_colors(tmp_path: Path) -> None:
    with LabelImages(tmp_path / "labels", PALETTE) as sink:
        sink.write(result(123))
        sink.write(result(1234567))
    assert sorted(path.name for path in (tmp_path / "labels").iterdir()) == [MARKER, "000123.png", "1234567.png"]
    with Image.open(tmp_path / "labels" / "000123.png") as image:
        assert image.mode == "P"
        assert np.array_equal(np.asarray(image), result(123).labels)
        colors = np.asarray(image.convert("RGB"))
    assert [tuple(colors[pixel]) for pixel in ((5, 40), (5, 5), (0, 0))] == [
        (10, 20, 30),
        (200, 0, 0),
        (255,) * 3,
    ]


def test_255_is_white_whatever_the_palette(tmp_path: Path) -> None:
    with LabelImages(tmp_path, np.zeros((256, 3), np.uint8)) as sink:
        sink.write(result(0))
    with Image.open(tmp_path / "000000.png") as image:
        colors = np.asarray(image.convert("RGB"))
    assert (tuple(colors[0, 0]), tuple(colors[5, 5])) == ((255,) * 3, (0,) * 3)


def test_an_interrupted_label_image_is_not_there_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = LabelImages(tmp_path, PALETTE)
    sink.write(result(0))

    def no_room(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "replace", no_room)
    with pytest.raises(OSError, match="No space left"):
        sink.write(result(1))
    assert [path.name for path in tmp_path.glob("*.png*")] == ["000000.png"]


def test_images_of_an_earlier_run_are_removed_and_nothing_else(tmp_path: Path) -> None:
    for name in ("notes.txt", "photo.png"):
        (tmp_path / name).touch()
    for index in (1234567, 5, 1):
        with LabelImages(tmp_path, PALETTE) as sink:
            sink.write(result(index))
    assert sorted(path.name for path in tmp_path.iterdir()) == [MARKER, "000001.png", "notes.txt", "photo.png"]


def test_a_folder_of_images_that_no_run_wrote_is_refused(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs" / "000007.png"
    theirs.parent.mkdir()
    theirs.touch()
    with pytest.raises(SettingsError, match="stmg did not write"):
        LabelImages(theirs.parent, PALETTE)
    assert theirs.exists()


SIZE = (32, 48)
RAMP = np.tile(np.linspace(0, 1, SIZE[1], dtype=np.float32), (SIZE[0], 1))


def soft(index: int) -> FrameResult:
    return result(index, SIZE, noise=True, probability=RAMP)


def test_alpha_images_hold_the_probability(tmp_path: Path) -> None:
    with AlphaImages(tmp_path) as sink:
        sink.write(soft(7))
    with Image.open(tmp_path / "000007.png") as image:
        assert image.mode == "L"
        assert np.array_equal(np.asarray(image), np.round(255 * RAMP))


def test_an_alpha_video_is_gray_from_black_to_white(tmp_path: Path) -> None:
    with AlphaVideo(tmp_path / "alpha.mp4", fps=25) as sink:
        for index in range(5):
            sink.write(soft(index))
    with av.open(str(tmp_path / "alpha.mp4")) as video:
        frames = [frame.to_ndarray(format="rgb24").astype(int) for frame in video.decode(video=0)]
    assert len(frames) == 5
    for frame in frames:
        assert np.abs(frame - frame.mean(2, keepdims=True)).max() <= 4
        assert np.abs(frame[..., 1] - 255 * RAMP).max() < 14


def test_a_cutout_is_the_frame_with_alpha(tmp_path: Path) -> None:
    with CutoutImages(tmp_path) as sink:
        sink.write(soft(3))
    with Image.open(tmp_path / "000003.png") as image:
        assert image.mode == "RGBA"
        pixels = np.asarray(image)
    assert np.array_equal(pixels[..., :3], soft(3).image)
    assert np.array_equal(pixels[..., 3], np.round(255 * RAMP))


def test_a_cutout_on_a_color_is_blended_with_it(tmp_path: Path) -> None:
    color = parse_color("#00ff80")
    assert color == (0, 255, 128)
    with CutoutImages(tmp_path, color) as sink:
        sink.write(soft(3))
    with Image.open(tmp_path / "000003.png") as image:
        assert image.mode == "RGB"
        pixels = np.asarray(image).astype(int)
    expected = soft(3).image * RAMP[..., None] + np.array(color) * (1 - RAMP[..., None])
    assert np.abs(pixels - expected).max() <= 2


def test_images_of_an_earlier_run_are_removed(tmp_path: Path) -> None:
    for name in ("000099.png", MARKER):
        (tmp_path / name).touch()
    with CutoutImages(tmp_path) as sink:
        sink.write(soft(3))
    assert sorted(path.name for path in tmp_path.iterdir()) == [MARKER, "000003.png"]


def test_several_classes_have_no_foreground(tmp_path: Path) -> None:
    for sink in (AlphaVideo(tmp_path / "alpha.mp4", 25), AlphaImages(tmp_path), CutoutImages(tmp_path)):
        with sink, pytest.raises(SettingsError, match="networks with one channel"):
            sink.write(result(0))
    assert not list(tmp_path.iterdir())


def test_what_is_no_color_is_refused() -> None:
    assert parse_color("green") == (0, 128, 0)
    with pytest.raises(SettingsError, match="a color is a name, or like #00ff00; got 'leaf'"):
        parse_color("leaf")
