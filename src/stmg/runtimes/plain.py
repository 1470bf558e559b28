"""A plain graph: a segmentation network that somebody exported, with one image in and class scores out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from stmg.frames import Image
from stmg.runtimes.black_box import BlackBoxRuntime
from stmg.runtimes.engines import Engine

PLAIN = {".onnx": "onnxruntime", ".xml": "openvino"}  # endings, and who runs them unless told otherwise


class PlainGraph(BlackBoxRuntime):
    """Runs an .onnx or .xml file that takes an image (1, 3, H, W), or (1, H, W, 3), and gives logits or labels.

    Floats are normalised with the mean and deviation given, bytes are handed over as they are.
    """

    def __init__(self, path: Path, engine: Engine, mean: Sequence[float], std: Sequence[float]) -> None:
        self.engine = engine
        self._run, shape, self._kind = engine.open(path)
        self._mean = np.array(mean, np.float32) * 255
        self._scale = 1 / (np.array(std, np.float32) * 255)
        self._last = shape[-1] == 3
        sides = shape[1:3] if self._last else shape[2:4]
        if len(shape) != 4 or (shape[-1] != 3 and shape[1] != 3):
            raise ValueError(f"{path} takes no RGB image: its input is {shape}, not (1, 3, H, W) or (1, H, W, 3)")
        if self._kind is None:
            raise ValueError(f"{path} takes an image neither of bytes nor of floats")
        self._sides = tuple(side if isinstance(side, int) and side > 0 else None for side in sides)
        super().__init__(self._scored)

    def _scored(self, image: Image) -> Any:
        wanted = tuple(fixed or own for fixed, own in zip(self._sides, image.shape[:2], strict=True))
        if image.shape[:2] != wanted:
            image = cv2.resize(image, wanted[::-1], interpolation=cv2.INTER_AREA)
        pixels: Any = image
        if self._kind is not np.uint8:
            pixels = ((image - self._mean) * self._scale).astype(self._kind)
        pixels = pixels[None] if self._last else np.ascontiguousarray(pixels.transpose(2, 0, 1))[None]
        output = self._run(pixels)
        if np.issubdtype(output.dtype, np.integer):  # labels, perhaps with axes of length one
            return output.squeeze()
        if output.ndim == 4 and _like(output.shape[1:3], wanted) and not _like(output.shape[2:], wanted):
            output = output.transpose(0, 3, 1, 2)  # channels last
        return output.astype(np.float32, copy=False)

    @property
    def size(self) -> tuple[int, int] | None:
        """(H, W) it is made for; None if it takes any."""
        height, width = self._sides
        return None if height is None or width is None else (height, width)


def _like(sides: tuple[int, ...], image: tuple[int, ...]) -> bool:
    """Whether two sides are those of an image, or of one made smaller."""
    return abs(sides[0] * image[1] - sides[1] * image[0]) <= max(image)
