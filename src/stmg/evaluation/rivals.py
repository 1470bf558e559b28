"""Rivals: what a sensible engineer would try first, over the same streams and the same runtime."""

from __future__ import annotations

import numpy as np
import torch

from stmg.data.dataset import Dataset
from stmg.evaluation.accuracy import ConfusionMatrix
from stmg.evaluation.stream import StreamFigures
from stmg.frames import Frame
from stmg.motion import DisMotion, move, view_of
from stmg.runtimes.labels import labels_of
from stmg.runtimes.torch import TorchRuntime
from stmg.scheduler import Level


@torch.no_grad()
def carried_logits(
    runtime: TorchRuntime, dataset: Dataset, split: str, size: tuple[int, int], period: int
) -> StreamFigures:
    """Every `period`th frame computed; its logits moved from frame to frame along DIS motion in between."""
    figures = StreamFigures(ConfusionMatrix(dataset.num_classes))
    whole = runtime.macs(size, Level.KEY, (), 1.0, masked=False) or 0
    flow = DisMotion()
    for video in dataset.videos(split):
        scores, before = np.zeros((1, 1, 1), np.float32), None
        for place in range(len(video)):
            image = video.image(place, size)
            view = view_of(Frame(image))
            if before is None or place % period == 0:
                level = Level.KEY
                scores = runtime.network.full(runtime.prepare(image)).logits[0].float().cpu().numpy().transpose(1, 2, 0)
            else:
                level = Level.CARRY
                scores = move(np.ascontiguousarray(scores), flow.between(before, view).field)
            before = view
            figures.levels[level] += 1
            figures.macs += whole if level is Level.KEY else 0
            figures.whole_macs += whole
            truth = video.truth(place, size)
            if truth is not None:
                figures.counts.add(labels_of(np.ascontiguousarray(scores.transpose(2, 0, 1)), size), truth)
    return figures
