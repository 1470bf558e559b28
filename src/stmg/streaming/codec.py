"""Codec: the flow that the motion vectors of a decoder amount to."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from stmg.streaming.flow import Flow, Map
from stmg.video.frames import CodecVectors


def flow_of_vectors(vectors: CodecVectors, scale: float, coverage: float, shape: tuple[int, int]) -> Flow | None:
    """The flow (h, w, 2) of the vectors into the past, times `scale`; None if they cover too little of the frame.

    coverage: the share of the frame that must have vectors.
    shape: (h, w).
    """
    past = vectors.blocks[vectors.blocks["source"] < 0] if len(vectors.blocks) else vectors.blocks
    if len(past) == 0:
        return None
    total, weight = _sum_over_cells(past, vectors.size)
    if float((weight > 0).mean()) < coverage:
        return None
    # Blocks coded without a vector take their neighbors' mean, out to a few blocks.
    for reach in (3, 7, 15):
        near, count = cv2.blur(total, (reach, reach)), cv2.blur(weight, (reach, reach))
        empty = (weight == 0) & (count > 0)
        total[empty], weight[empty] = near[empty], count[empty]
    height, width = vectors.size
    mean = total / np.maximum(weight, 1e-6)[:, :, None] / np.array([width, height], np.float32)
    mean *= np.float32(scale)
    flow: Flow = cv2.resize(mean, shape[::-1], interpolation=cv2.INTER_LINEAR)
    return flow


def _sum_over_cells(blocks: NDArray[Any], size: tuple[int, int]) -> tuple[NDArray[np.float32], Map]:
    """Vectors in pixels summed over cells of the coded picture, (rows, columns, 2), and how many each cell got."""
    cell = 8  # pixels
    rows, columns = -(-size[0] // cell), -(-size[1] // cell)
    wide, high = blocks["w"].astype(int), blocks["h"].astype(int)
    top, left = (blocks["dst_y"] - high // 2) // cell, (blocks["dst_x"] - wide // 2) // cell
    scale = np.maximum(blocks["motion_scale"], 1)
    cells, sources = [], []
    for down in range(max(1, int(high.max()) // cell)):
        for right in range(max(1, int(wide.max()) // cell)):
            row, column = top + down, left + right
            reached = (down * cell < high) & (right * cell < wide)
            inside = reached & (row >= 0) & (row < rows) & (column >= 0) & (column < columns)
            cells.append((row * columns + column)[inside])
            sources.append(np.flatnonzero(inside))
    cell_of, block = np.concatenate(cells), np.concatenate(sources)
    x, y = ((blocks[name] / scale)[block] for name in ("motion_x", "motion_y"))
    sums = [np.bincount(cell_of, weights, minlength=rows * columns) for weights in (x, y, None)]
    planes = np.stack(sums, axis=-1).reshape(rows, columns, 3).astype(np.float32)
    return np.ascontiguousarray(planes[:, :, :2]), np.ascontiguousarray(planes[:, :, 2])
