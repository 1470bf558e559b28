"""A corrector as a graph, run by the engine that runs the network; it needs no PyTorch."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from stmg.runtimes.engine import Engine
from stmg.streaming.correction import GRID, VIEW
from stmg.streaming.cost import Cost
from stmg.streaming.flow import Map
from stmg.video.frames import Image, resize_image

INPUTS, OUTPUTS = ("image", "before", "warped"), ("logits", "mask")
"""Of the graph."""


class GraphCorrector:
    """Runs the graph of a corrector at the frame size it was exported for; other sizes are brought to it and back.

    size: (H, W) of the frames.
    between: whether it is for frames between two computed ones too.
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
        self._run = engine.compile(graph, (), OUTPUTS, None)

    def correct(self, image: Image, before: Image, logits: NDArray[np.float32]) -> tuple[NDArray[np.float32], Map]:
        view = self.size[0] // VIEW, self.size[1] // VIEW
        grid = self.size[0] // GRID, self.size[1] // GRID
        own = logits.shape[:2]
        pictures = [np.ascontiguousarray(resize_image(each, view))[None] for each in (image, before)]
        warped = np.ascontiguousarray(_resize_maps(logits, grid).transpose(2, 0, 1))[None]
        outputs = self._run(dict(zip(INPUTS, (*pictures, warped), strict=True)))
        new = np.ascontiguousarray(outputs["logits"][0].transpose(1, 2, 0))
        mask = np.ascontiguousarray(outputs["mask"][0, 0])
        return _resize_maps(new, own), _resize_maps(mask, own)

    def cost(self, size: tuple[int, int]) -> Cost:
        return self._cost


def _resize_maps(maps: NDArray[np.float32], size: tuple[int, ...]) -> NDArray[np.float32]:
    if maps.shape[:2] == size:
        return maps
    if maps.ndim == 2:
        resized: NDArray[np.float32] = cv2.resize(maps, size[1::-1], interpolation=cv2.INTER_LINEAR)
        return resized
    planes = [cv2.resize(np.ascontiguousarray(maps[:, :, at]), size[1::-1]) for at in range(maps.shape[2])]
    return np.stack(planes, axis=2)
