"""Fronts and groups of points: which of many rows are shown, and which form one line of a plot."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TypeVar

import numpy as np

from stmg.evaluation.results import TuneResult
from stmg.evaluation.rows import FrameRecord, Row
from stmg.evaluation.way import Way
from stmg.streaming.schedulers import Level

Name = TypeVar("Name", bound=Hashable)
Point = tuple[float, float]
"""Two coordinates, such as mIoU and FPS."""


def group_ways(points: Mapping[Way, Point]) -> list[list[Way]]:
    """Group ways that differ only in stride or budget, each group from slow to fast."""
    groups: dict[tuple[str, str], list[Way]] = {}
    for way in sorted(points, key=lambda way: points[way][1]):
        groups.setdefault((way.family, way.engine), []).append(way)
    return list(groups.values())


def pareto_front(points: Mapping[Name, Point]) -> list[Name]:
    """The points (mIoU, FPS) that no other beats in both, from slow to fast."""
    names = sorted(points, key=lambda name: (-points[name][1], -points[name][0]))
    front: list[Name] = []
    best = -np.inf
    for name in names:
        if points[name][0] > best:
            front.append(name)
            best = points[name][0]
    return front[::-1]


def list_front(result: TuneResult) -> list[Row]:
    """The rows to show: the choice, and of each model and mode those that no other beats in both speed and change."""

    def is_beaten(one: Row) -> bool:
        return any(
            (other.way.model, other.way.kind) == (one.way.model, one.way.kind)
            and other.fps >= one.fps
            and (other.changed or 0) <= (one.changed or 0)
            and (other.fps, other.changed) != (one.fps, one.changed)
            for other in result.outcomes
        )

    return [row for row in result.outcomes if row == result.best or not is_beaten(row)]


def pruning_points(frames: Sequence[FrameRecord]) -> list[Point]:
    """Distortion and pruned share of blocks of each partial frame."""
    return [
        (frame.distortion, 1 - frame.kept_blocks)
        for frame in frames
        if frame.level is Level.PARTIAL and frame.distortion is not None and frame.kept_blocks is not None
    ]


def correlation(points: Sequence[Point]) -> float:
    """Correlation of the two coordinates; NaN if either is constant."""
    first, second = np.array(points).T
    return float(np.corrcoef(first, second)[0, 1]) if first.std() > 0 and second.std() > 0 else float("nan")
