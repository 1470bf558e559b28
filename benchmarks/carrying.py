"""What carrying costs in accuracy, apart from any network, on a video of which every frame is labeled.

The true labels, coarsened to 1/8 as a network would give them, stand for the network on one frame in N; the others are
carried. Losses are relative to the same labels on every frame.

    python benchmarks/carrying.py CAMVID [--size 360x480]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

from stmg.data.camvid import open_camvid
from stmg.evaluation.accuracy import ConfusionMatrix
from stmg.runtimes.labels import argmax_labels
from stmg.streaming.flow import compose, warp
from stmg.streaming.motion import DisMotion, make_view
from stmg.video.frames import Frame

PERIODS = (2, 3, 5, 10)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("camvid", type=Path)
    parser.add_argument("--size", default="360x480")
    arguments = parser.parse_args()
    size = height, width = tuple(map(int, arguments.size.split("x")))
    data = open_camvid(arguments.camvid)
    (video,) = data.videos("val")
    views, truths = [], []
    for index in track(video.labeled, "reading"):
        truths.append(video.truth(index, size))
        views.append(make_view(Frame(video.image(index, size))))
    logits = [_coarse(truth, data.num_classes) for truth in truths]
    labels = [argmax_labels(each.transpose(2, 0, 1), (height, width)) for each in logits]
    flows = [None, *[DisMotion().estimate(a, b).flow for a, b in pairwise(views)]]

    def stepwise(start: int, number: int) -> Any:
        """Logits warped from each frame to the next."""
        warped = logits[start]
        for step in range(start + 1, number + 1):
            warped = warp(warped, flows[step])
        return argmax_labels(warped.transpose(2, 0, 1), (height, width))

    def along_path(start: int, number: int) -> Any:
        """Labels warped once, along the composed flow: what stmg does."""
        path = None
        for step in range(start + 1, number + 1):
            path = compose(path, flows[step])
        return warp(labels[start], path, nearest=True)

    ways: dict[str, Callable[[int, int], Any]] = {
        "last labels copied": lambda start, number: labels[start],
        "logits warped step by step": stepwise,
        "labels warped along one flow (stmg)": along_path,
    }
    base = _accuracy(labels, truths, data.num_classes)
    columns = [f"N = {period}" for period in PERIODS]
    table = Table("relative mIoU", *columns, title=f"{len(truths)} frames, one in N known")
    for name, way in ways.items():
        losses = []
        for period in track(PERIODS, name):
            carried = [way(number - number % period, number) for number in range(len(truths))]
            losses.append(f"{_accuracy(carried, truths, data.num_classes) / base - 1:+.1%}")
        table.add_row(name, *losses)
    Console().print(table)


def _coarse(truth: Any, num_classes: int) -> Any:
    """Shares of the classes in cells of 8x8 pixels, (h, w, C)."""
    height, width = truth.shape
    size = (-(-width // 8), -(-height // 8))
    shares = ((truth == number).astype(np.float32) for number in range(num_classes))
    planes = [cv2.resize(share, size, interpolation=cv2.INTER_AREA) for share in shares]
    return np.stack(planes, axis=-1)


def _accuracy(labels: list[Any], truths: list[Any], num_classes: int) -> float:
    confusion = ConfusionMatrix(num_classes)
    for one, truth in zip(labels, truths, strict=True):
        confusion.add(one, truth)
    return confusion.mean_iou()


if __name__ == "__main__":
    main()
