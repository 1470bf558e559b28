"""Image folders: one PNG per frame, of labels, of the foreground's probability (alpha), or of cutouts."""

from __future__ import annotations

import io
import re
from abc import abstractmethod
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image as PillowImage
from PIL import ImageColor

from stmg.errors import SettingsError
from stmg.files import write_atomically
from stmg.outputs.sinks import FileSink
from stmg.streaming.result import FrameResult
from stmg.video.labels import Labels
from stmg.video.overlay import make_color_table

MARKER = ".stmg"
"""File that marks a folder whose images stmg wrote."""
_IMAGE = re.compile(r"[0-9]{6,}\.png")


class ImageFolder(FileSink):
    """One PNG per frame, named by its index. A file appears only when it is complete.

    Images of an earlier run are removed before the first is written. A folder with such images that stmg did not write
    is refused.
    """

    compression = 6
    """zlib's level, 0 to 9."""

    def __init__(self, folder: str | Path) -> None:
        super().__init__(folder)
        self.path.mkdir(parents=True, exist_ok=True)
        if self._find_images() and not (self.path / MARKER).exists():
            raise SettingsError(f"{self.path} holds images that stmg did not write; choose another output folder")
        self._begun = False

    @abstractmethod
    def _draw(self, result: FrameResult) -> PillowImage.Image:
        """The image of a result."""

    def _write(self, result: FrameResult) -> None:
        data = io.BytesIO()
        self._draw(result).save(data, "PNG", compress_level=self.compression)
        if not self._begun:
            self._begin()
        write_atomically(self.path / f"{result.index:06d}.png", data.getvalue())

    def _begin(self) -> None:
        """Remove old images. Not before the first frame, so a run without frames keeps those of another run."""
        for old in self._find_images():
            old.unlink()
        (self.path / MARKER).touch()
        self._begun = True

    def _find_images(self) -> list[Path]:
        return [path for path in self.path.iterdir() if _IMAGE.fullmatch(path.name)]


class LabelImages(ImageFolder):
    """Class ids, shown in the colors of the palette. Ids without a color, such as 255, are white."""

    def __init__(self, folder: str | Path, palette: NDArray[np.uint8]) -> None:
        super().__init__(folder)
        self._table = make_color_table(palette)

    def _draw(self, result: FrameResult) -> PillowImage.Image:
        return make_label_image(result.labels, self._table)


class AlphaImages(ImageFolder):
    """The probability of the foreground in gray, 0 to 255."""

    def _draw(self, result: FrameResult) -> PillowImage.Image:
        return PillowImage.fromarray(make_alpha(result))


class CutoutImages(ImageFolder):
    """The foreground alone: RGBA images whose opacity is its probability, or RGB images on a color.

    color: RGB of the background, 0 to 255; None: transparent.
    """

    compression = 1  # higher levels are slower, and make photographs hardly smaller

    def __init__(self, folder: str | Path, color: tuple[int, int, int] | None = None) -> None:
        super().__init__(folder)
        self.color = color

    def _draw(self, result: FrameResult) -> PillowImage.Image:
        alpha = make_alpha(result)
        if self.color is None:
            return PillowImage.fromarray(np.dstack((result.image, alpha)))
        frame = PillowImage.fromarray(result.image)
        background = PillowImage.new("RGB", frame.size, self.color)
        return PillowImage.composite(frame, background, PillowImage.fromarray(alpha))


def make_label_image(labels: Labels, table: NDArray[np.uint8]) -> PillowImage.Image:
    """Class ids as an image with a palette. `table`: (256, 3) RGB colors of all ids."""
    image = PillowImage.fromarray(labels)
    image.putpalette(table.tobytes())
    return image


def make_alpha(result: FrameResult) -> NDArray[np.uint8]:
    """The probability of the foreground, (H, W), 0 to 255. A network with several classes is an error."""
    if result.probability is None:
        raise SettingsError(
            "alpha and cutout show the foreground of networks with one channel; this one has several classes, "
            "which overlay and labels show"
        )
    alpha: NDArray[np.uint8] = cv2.convertScaleAbs(result.probability, alpha=255)
    return alpha


def parse_color(text: str) -> tuple[int, int, int]:
    """RGB from a name or hexadecimal digits: green, #00ff00."""
    try:
        red, green, blue, *_ = ImageColor.getrgb(text)
    except ValueError:
        raise SettingsError(f"a color is a name, or like #00ff00; got {text!r}") from None
    return red, green, blue
