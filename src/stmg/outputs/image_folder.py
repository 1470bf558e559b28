"""Image folders: what a run shows, as one PNG per frame; how a frame is drawn is up to the kind of images."""

from __future__ import annotations

import io
from abc import abstractmethod
from pathlib import Path

from PIL.Image import Image as PillowImage

from stmg.files import write_atomically
from stmg.outputs.sink import FileSink
from stmg.streaming.state import FrameResult


class ImageFolder(FileSink):
    """One PNG per frame, named by its index. A file appears only when it is complete."""

    compression = 6
    """Of zlib, from 0 to 9."""

    def __init__(self, folder: str | Path) -> None:
        super().__init__(folder)
        self.path.mkdir(parents=True, exist_ok=True)
        for old in self.path.glob("[0-9]" * 6 + ".png"):  # of an earlier, longer video
            old.unlink()

    @abstractmethod
    def _draw(self, result: FrameResult) -> PillowImage:
        """What the image shows of a result."""

    def _write(self, result: FrameResult) -> None:
        data = io.BytesIO()
        self._draw(result).save(data, "PNG", compress_level=self.compression)
        write_atomically(self.path / f"{result.index:06d}.png", data.getvalue())
