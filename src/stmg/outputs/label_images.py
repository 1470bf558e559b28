"""Label images: the class of each pixel as one PNG per frame."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image as PillowImage

from stmg.outputs.image_folder import ImageFolder
from stmg.streaming.state import FrameResult
from stmg.video.labels import Labels
from stmg.video.overlay import make_color_table


class LabelImages(ImageFolder):
    """Class ids as they are, shown in the colors of the palette. Ids without a color, 255 among them, are white."""

    def __init__(self, folder: str | Path, palette: NDArray[np.uint8]) -> None:
        super().__init__(folder)
        self._table = make_color_table(palette)

    def _draw(self, result: FrameResult) -> PillowImage.Image:
        return label_image(result.labels, self._table)


def label_image(labels: Labels, table: NDArray[np.uint8]) -> PillowImage.Image:
    """Class ids as an image with a palette; `table` holds the RGB colors of all 256 of them."""
    image = PillowImage.fromarray(labels)
    image.putpalette(table.tobytes())
    return image
