"""A plain graph: a segmentation network that somebody exported, with one image in and class logits out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stmg.errors import ModelError
from stmg.runtimes.callable import CallableRuntime
from stmg.runtimes.engine import Engine, describe_engine
from stmg.runtimes.normalization import Normalization
from stmg.video.frames import Image, resize_image

GRAPH_SUFFIXES = {".onnx": "onnxruntime", ".xml": "openvino"}
"""Of graph files, and the engine that runs them unless another is chosen."""


class GraphRuntime(CallableRuntime):
    """Runs an .onnx or .xml file that takes an image (1, 3, H, W), or (1, H, W, 3), and gives logits or labels.

    A graph that takes floats gets the image normalized, one that takes bytes gets it as it is.
    """

    def __init__(self, path: Path, engine: Engine, normalization: Normalization | None = None) -> None:
        self.engine = engine
        self.normalization = normalization or Normalization()
        self._graph = engine.open(path)
        shape = self._graph.shape
        if len(shape) != 4 or (shape[-1] != 3 and shape[1] != 3):
            raise ModelError(f"{path} takes no RGB image: its input is {shape}, not (1, 3, H, W) or (1, H, W, 3)")
        if self._graph.dtype is None:
            raise ModelError(f"{path} takes an image neither of bytes nor of floats")
        self._channels_last = shape[-1] == 3
        height, width = shape[1:3] if self._channels_last else shape[2:4]
        self._height, self._width = _fixed(height), _fixed(width)
        super().__init__(self._run)

    @property
    def description(self) -> str:
        return describe_engine(self.engine)

    @property
    def input_size(self) -> tuple[int, int] | None:
        return None if self._height is None or self._width is None else (self._height, self._width)

    def _run(self, image: Image) -> NDArray[Any]:
        size = (self._height or image.shape[0], self._width or image.shape[1])
        pixels: NDArray[Any] = resize_image(image, size)
        if self._graph.dtype is not np.uint8:
            assert self._graph.dtype is not None
            pixels = self.normalization.apply(pixels).astype(self._graph.dtype)
        pixels = pixels[None] if self._channels_last else np.ascontiguousarray(pixels.transpose(2, 0, 1))[None]
        output = self._graph.run(pixels)
        if np.issubdtype(output.dtype, np.integer):  # labels, perhaps with axes of length one
            return output.squeeze()
        if output.ndim == 4 and _similar(output.shape[1:3], size) and not _similar(output.shape[2:], size):
            output = output.transpose(0, 3, 1, 2)  # channels last
        return output.astype(np.float32, copy=False)


def _fixed(side: int | str | None) -> int | None:
    """A side of the input as a number; None if it is free."""
    return side if isinstance(side, int) and side > 0 else None


def _similar(sides: tuple[int, ...], image: tuple[int, int]) -> bool:
    """Whether two sides are those of an image, or of one made smaller."""
    return abs(sides[0] * image[1] - sides[1] * image[0]) <= max(image)
