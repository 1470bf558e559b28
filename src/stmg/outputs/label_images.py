"""Label images: the class of each pixel as one PNG per frame."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image as PillowImage

from stmg.files import write_atomically
from stmg.outputs.sink import FileSink
from stmg.streaming.state import FrameResult
from stmg.video.overlay import make_color_table


class LabelImages(FileSink):
    """One PNG per frame, named by its index: class ids as they are, shown in the colors of the palette.

    A file appears only when it is complete. Ids without a color, 255 among them, are white.
    """

    def __init__(self, folder: str | Path, palette: NDArray[np.uint8]) -> None:
        super().__init__(folder)
        self.path.mkdir(parents=True, exist_ok=True)
        for old in self.path.glob("[0-9]" * 6 + ".png"):  # of an earlier, longer video
            old.unlink()
        self._palette = make_color_table(palette).tobytes()

    def _write(self, result: FrameResult) -> None:
        image = PillowImage.fromarray(result.labels)
        image.putpalette(self._palette)
        data = io.BytesIO()
        image.save(data, "PNG")
        write_atomically(self.path / f"{result.index:06d}.png", data.getvalue())
