"""Label images hold class ids, and are there whole or not at all."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from results import PALETTE, result
from stmg.errors import SettingsError
from stmg.outputs.images import MARKER, LabelImages


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
