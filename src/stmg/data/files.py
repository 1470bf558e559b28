"""Videos as image files or a video file, with label files. Errors name the file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image as PillowImage

from stmg.errors import DataError
from stmg.video.frames import Image, resize_image
from stmg.video.labels import IGNORE, MAX_DATASET_CLASSES, Labels, resize_labels
from stmg.video.random_access import IndexedVideo
from stmg.video.readers import check_claimed_size, quiet_opencv

_BYTE_WEIGHTS = np.array([65536, 256, 1], np.uint32)  # convert a color to one number, which is faster to compare


@dataclass(frozen=True)
class LabelCode:
    """Encoding of a dataset's label files."""

    num_classes: int
    recode: dict[int, int] = field(default_factory=dict, repr=False)
    """Classes of values in the files that are not class numbers. 255 is ignored."""
    colors: dict[tuple[int, int, int], int] = field(default_factory=dict, repr=False)
    """Classes of colors, if the files hold colors. Other colors are ignored."""

    def read(self, path: Path) -> Labels:
        """Read labels (H, W) from a file. Every pixel is a class or 255."""
        values = read_labels(path)
        if self.colors:
            return _decode_colors(values, self.colors, path)
        if values.ndim != 2:
            raise DataError(f"{path} has {values.shape[2]} channels; label files hold one class number per pixel")
        labels = self._table[values]
        wrong = labels[(labels >= self.num_classes) & (labels != IGNORE)]
        if wrong.size:
            raise DataError(
                f"{path} holds class {wrong.flat[0]}; there are {self.num_classes} classes, "
                f"0 to {self.num_classes - 1}, and {IGNORE} for none"
            )
        return labels

    @cached_property
    def _table(self) -> NDArray[np.uint8]:
        table = np.arange(256, dtype=np.uint8)
        for value, class_id in self.recode.items():
            table[value] = class_id
        return table


@dataclass(frozen=True)
class FrameFiles:
    """A video as ordered image files, some with a label file."""

    name: str
    frames: tuple[Path, ...]
    labels: tuple[Path | None, ...]
    """One for each frame; None if it has no labels."""
    code: LabelCode
    rate: float | None = None

    def __post_init__(self) -> None:
        assert len(self.frames) == len(self.labels)

    def __len__(self) -> int:
        return len(self.frames)

    @cached_property
    def labeled(self) -> Sequence[int]:
        return [index for index, path in enumerate(self.labels) if path is not None]

    def image(self, index: int, size: tuple[int, int] | None = None) -> Image:
        return read_image(self.frames[index], size)

    def truth(self, index: int, size: tuple[int, int] | None = None) -> Labels | None:
        path = self.labels[index]
        if path is None:
            return None
        labels = self.code.read(path)
        height, width = image_size(self.frames[index])
        if labels.shape != (height, width):
            raise DataError(
                f"{path} is {labels.shape[0]}x{labels.shape[1]}, its image {self.frames[index].name} {height}x{width}"
            )
        return labels if size is None else resize_labels(labels, size)


@dataclass(frozen=True)
class VideoFile:
    """A video file. Some of its frames have a label file."""

    path: Path
    labels: dict[int, Path] = field(default_factory=dict)
    code: LabelCode = field(default_factory=lambda: LabelCode(MAX_DATASET_CLASSES))

    @property
    def name(self) -> str:
        return self.path.stem

    @cached_property
    def labeled(self) -> Sequence[int]:
        beyond = [index for index in self.labels if index >= len(self)]
        if beyond:
            raise DataError(f"{self.labels[beyond[0]]} is for frame {beyond[0]}; {self.path} has {len(self)} frames")
        return sorted(self.labels)

    @property
    def rate(self) -> float | None:
        return self._video.fps

    def __len__(self) -> int:
        return len(self._video)

    def image(self, index: int, size: tuple[int, int] | None = None) -> Image:
        image = self._video.read(index)
        return image if size is None else resize_image(image, size)

    def truth(self, index: int, size: tuple[int, int] | None = None) -> Labels | None:
        if index not in self.labels:
            return None
        labels, (height, width) = self.code.read(self.labels[index]), self._video.size
        if labels.shape != (height, width):
            raise DataError(
                f"{self.labels[index]} is {labels.shape[0]}x{labels.shape[1]}, {self.path} {height}x{width}"
            )
        return labels if size is None else resize_labels(labels, size)

    @cached_property
    def _video(self) -> IndexedVideo:
        return IndexedVideo(self.path)


def read_image(path: Path, size: tuple[int, int] | None = None) -> Image:
    """Read an image file as RGB (H, W, 3)."""
    check_claimed_size(path)
    with quiet_opencv():
        image = cv2.imread(str(path), cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION)  # as for the labels
    if image is None:
        raise DataError(f"{path} cannot be read as an image" if path.exists() else f"{path} does not exist")
    rgb: Image = cv2.cvtColor(image, cv2.COLOR_BGR2RGB)
    return rgb if size is None else resize_image(rgb, size)


def image_size(path: Path) -> tuple[int, int]:
    """Read (height, width) from the file's header."""
    check_claimed_size(path)
    try:
        with PillowImage.open(path) as image:
            return image.height, image.width
    except (OSError, SyntaxError, ValueError):  # all that Pillow may raise
        raise DataError(f"{path} cannot be read as an image" if path.exists() else f"{path} does not exist") from None


def read_labels(path: Path) -> NDArray[np.uint8]:
    """Read the values of a label file: (H, W) class numbers or palette indices, or (H, W, 3) colors."""
    check_claimed_size(path)
    try:
        with PillowImage.open(path) as image:
            # A palette image holds class numbers. OpenCV would return its colors.
            values = np.asarray(image)
    except (OSError, SyntaxError, ValueError):  # all that Pillow may raise
        raise DataError(f"{path} cannot be read as labels" if path.exists() else f"{path} does not exist") from None
    if values.dtype != np.uint8:
        raise DataError(f"{path} holds {values.dtype} values; label files are 8-bit PNGs of class numbers")
    return values[:, :, :3] if values.ndim == 3 else values


def _decode_colors(values: NDArray[np.uint8], colors: dict[tuple[int, int, int], int], path: Path) -> Labels:
    if values.ndim != 3:
        raise DataError(f"{path} holds class numbers; this dataset's labels are colors")
    keys = values.astype(np.uint32) @ _BYTE_WEIGHTS
    labels = np.full(keys.shape, IGNORE, np.uint8)
    for color, class_id in colors.items():
        labels[keys == np.array(color, np.uint32) @ _BYTE_WEIGHTS] = class_id
    return labels
