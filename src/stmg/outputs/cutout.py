"""Cutouts: the foreground alone, one PNG per frame, transparent around it or on a color."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image as PillowImage
from PIL import ImageColor

from stmg.errors import SettingsError
from stmg.outputs.alpha import alpha_of
from stmg.outputs.image_folder import ImageFolder
from stmg.streaming.state import FrameResult


class CutoutImages(ImageFolder):
    """RGBA images of the frames, as transparent as the foreground is improbable; on a color they are RGB.

    color: RGB of the background, from 0 to 255; transparent if None.
    """

    compression = 1  # photographs hardly become smaller with more, only slower

    def __init__(self, folder: str | Path, color: tuple[int, int, int] | None = None) -> None:
        super().__init__(folder)
        self.color = color

    def _draw(self, result: FrameResult) -> PillowImage.Image:
        alpha = alpha_of(result)
        if self.color is None:
            return PillowImage.fromarray(np.dstack((result.image, alpha)))
        frame = PillowImage.fromarray(result.image)
        background = PillowImage.new("RGB", frame.size, self.color)
        return PillowImage.composite(frame, background, PillowImage.fromarray(alpha))


def parse_color(text: str) -> tuple[int, int, int]:
    """RGB from a name or from hexadecimal digits: green, #00ff00."""
    try:
        red, green, blue, *_ = ImageColor.getrgb(text)
    except ValueError:
        raise SettingsError(f"a color is a name, or like #00ff00; got {text!r}") from None
    return red, green, blue
