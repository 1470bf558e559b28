"""Image folders: what a run shows, as one PNG per frame; how a frame is drawn is up to the kind of images."""

from __future__ import annotations

import io
import re
from abc import abstractmethod
from pathlib import Path

from PIL.Image import Image as PillowImage

from stmg.errors import SettingsError
from stmg.files import write_atomically
from stmg.outputs.sink import FileSink
from stmg.streaming.state import FrameResult

MARKER = ".stmg"
"""In a folder whose images are those of a run."""
_IMAGE = re.compile(r"[0-9]{6,}\.png")


class ImageFolder(FileSink):
    """One PNG per frame, named by its index. A file appears only when it is complete.

    Those of an earlier run are removed before the first is written; a folder with such images that no run wrote is
    refused.
    """

    compression = 6
    """Of zlib, from 0 to 9."""

    def __init__(self, folder: str | Path) -> None:
        super().__init__(folder)
        self.path.mkdir(parents=True, exist_ok=True)
        if self._find_images() and not (self.path / MARKER).exists():
            raise SettingsError(f"{self.path} holds images that stmg did not write; choose another output folder")
        self._begun = False

    @abstractmethod
    def _draw(self, result: FrameResult) -> PillowImage:
        """What the image shows of a result."""

    def _write(self, result: FrameResult) -> None:
        data = io.BytesIO()
        self._draw(result).save(data, "PNG", compress_level=self.compression)
        if not self._begun:
            self._begin()
        write_atomically(self.path / f"{result.index:06d}.png", data.getvalue())

    def _begin(self) -> None:
        """Nothing is removed before the first frame, so a run without frames leaves the images of another."""
        for old in self._find_images():
            old.unlink()
        (self.path / MARKER).touch()
        self._begun = True

    def _find_images(self) -> list[Path]:
        return [path for path in self.path.iterdir() if _IMAGE.fullmatch(path.name)]
