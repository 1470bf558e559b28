"""Image and label files: reading them, with errors that name the file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image as PillowImage
from PIL import UnidentifiedImageError

from stmg.data.dataset import DataError
from stmg.frames import Image
from stmg.overlay import IGNORE
from stmg.state import Labels


@dataclass(frozen=True)
class LabelCode:
    """How a dataset's label files are read."""

    num_classes: int
    recode: dict[int, int] = field(default_factory=dict, repr=False)
    """Classes of values in the files that are not class numbers themselves; 255 is ignored."""
    colours: dict[tuple[int, int, int], int] = field(default_factory=dict, repr=False)
    """Classes of colours, where the files hold colours; colours that are not listed are ignored."""

    def read(self, path: Path) -> Labels:
        """Labels (H, W) of a file, every one a class or 255."""
        values = read_labels(path)
        if self.colours:
            return _from_colours(values, self.colours, path)
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
        for value, number in self.recode.items():
            table[value] = number
        return table


@dataclass(frozen=True)
class FrameFiles:
    """A video as image files in order, some with a label file."""

    name: str
    frames: tuple[Path, ...]
    labels: tuple[Path | None, ...]
    """One per frame; None where there is none."""
    code: LabelCode
    rate: float | None = None

    def __post_init__(self) -> None:
        assert len(self.frames) == len(self.labels)

    def __len__(self) -> int:
        return len(self.frames)

    @cached_property
    def labelled(self) -> Sequence[int]:
        return [place for place, path in enumerate(self.labels) if path is not None]

    def image(self, place: int, size: tuple[int, int] | None = None) -> Image:
        return read_image(self.frames[place], size)

    def truth(self, place: int, size: tuple[int, int] | None = None) -> Labels | None:
        path = self.labels[place]
        if path is None:
            return None
        labels = self.code.read(path)
        height, width = image_size(self.frames[place])
        if labels.shape != (height, width):
            raise DataError(
                f"{path} is {labels.shape[0]}x{labels.shape[1]}, its image {self.frames[place].name} {height}x{width}"
            )
        return labels if size is None else resized_labels(labels, size)


def read_image(path: Path, size: tuple[int, int] | None = None) -> Image:
    """An image file as RGB (H, W, 3)."""
    image = cv2.imread(str(path), cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION)  # labels know none either
    if image is None:
        raise DataError(f"{path} cannot be read as an image" if path.exists() else f"{path} does not exist")
    if size is not None and image.shape[:2] != size:
        image = cv2.resize(image, (size[1], size[0]), interpolation=cv2.INTER_AREA)
    rgb: Image = cv2.cvtColor(image, cv2.COLOR_BGR2RGB)
    return rgb


def image_size(path: Path) -> tuple[int, int]:
    """(height, width) from the file's header alone."""
    try:
        with PillowImage.open(path) as image:
            return image.height, image.width
    except (OSError, SyntaxError, UnidentifiedImageError):
        raise DataError(f"{path} cannot be read as an image" if path.exists() else f"{path} does not exist") from None


def read_labels(path: Path) -> NDArray[np.uint8]:
    """A label file's values as stored, (H, W) class numbers or palette places, or (H, W, 3) colours."""
    try:
        with PillowImage.open(path) as image:
            # A palette image holds class numbers; OpenCV would give back their colours.
            values = np.asarray(image)
    except (OSError, SyntaxError, UnidentifiedImageError):
        raise DataError(f"{path} cannot be read as labels" if path.exists() else f"{path} does not exist") from None
    if values.dtype != np.uint8:
        raise DataError(f"{path} holds {values.dtype} values; label files are 8-bit PNGs of class numbers")
    return values[:, :, :3] if values.ndim == 3 else values


def resized_labels(labels: Labels, size: tuple[int, int]) -> Labels:
    """Labels in another size, each pixel that of the nearest."""
    if labels.shape == size:
        return labels
    out: Labels = cv2.resize(labels, (size[1], size[0]), interpolation=cv2.INTER_NEAREST_EXACT)
    return out


def _from_colours(values: NDArray[np.uint8], colours: dict[tuple[int, int, int], int], path: Path) -> Labels:
    if values.ndim != 3:
        raise DataError(f"{path} holds class numbers; this dataset's labels are colours")
    keys = values.astype(np.uint32) @ _PLACES
    labels = np.full(keys.shape, IGNORE, np.uint8)
    for colour, number in colours.items():
        labels[keys == np.array(colour, np.uint32) @ _PLACES] = number
    return labels


_PLACES = np.array([65536, 256, 1], np.uint32)
