"""A corrector as a graph, run by the engine that runs the network; it needs no PyTorch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from stmg.runtimes.engine import Engine
from stmg.streaming.correction import GRID, view_size
from stmg.streaming.cost import Cost
from stmg.streaming.flow import Map
from stmg.video.frames import Image, resize_image
from stmg.video.labels import resize_plane

INPUTS, OUTPUTS = ("image", "before", "warped"), ("logits", "mask")
"""Names of the graph's inputs and outputs."""


class GraphCorrector:
    """Runs the graph of a corrector at the frame size it was exported for; other sizes are brought to it and back.

    size: (H, W) of the frames.
    between: True if it also corrects frames between two computed ones.
    """

    def __init__(
        self,
        graph: Path,
        engine: Engine,
        num_classes: int,
        size: tuple[int, int],
        cost: Cost,
        *,
        between: bool = True,
    ) -> None:
        self.num_classes, self.size, self.between = num_classes, size, between
        self._cost = cost
        self._run = engine.compile(graph, OUTPUTS)

    def correct(self, image: Image, before: Image, logits: NDArray[np.float32]) -> tuple[NDArray[np.float32], Map]:
        grid = self.size[0] // GRID, self.size[1] // GRID
        own = logits.shape[:2]
        pictures = [np.ascontiguousarray(resize_image(each, view_size(self.size)))[None] for each in (image, before)]
        warped = _resize_planes(logits.transpose(2, 0, 1), grid)[None]
        outputs = self._run(dict(zip(INPUTS, (*pictures, warped), strict=True)))
        new, mask = (_resize_planes(outputs[name][0], own) for name in OUTPUTS)
        return np.ascontiguousarray(new.transpose(1, 2, 0)), mask[0]

    def cost(self, size: tuple[int, int]) -> Cost:
        return self._cost


def _resize_planes(maps: NDArray[np.float32], size: tuple[int, ...]) -> NDArray[np.float32]:
    """Maps (C, h, w) at another size."""
    return np.stack([resize_plane(np.ascontiguousarray(plane), size) for plane in maps])
