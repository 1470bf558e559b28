"""Meters: accuracy and cost of one stream, added up frame by frame into its row."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from stmg.evaluation.accuracy import BoundaryIou, ConfusionMatrix, Consistency, Correspondence
from stmg.evaluation.rows import ClassIou, DistanceScore, FrameCost, LevelShare, Row, percent
from stmg.evaluation.way import Way
from stmg.streaming.cost import Cost
from stmg.streaming.result import FrameResult
from stmg.streaming.schedulers import Level
from stmg.video.labels import Labels


class Answer(NamedTuple):
    """A stream's result for a frame, and where its labels come from."""

    result: FrameResult
    distance: int
    """Frames to the computed frame that the labels come from."""
    computed: bool
    """True if the network started on this frame."""


class Meter:
    """Adds up accuracy and cost of one stream."""

    def __init__(self, num_classes: int) -> None:
        self.counts = ConfusionMatrix(num_classes)
        self.levels: Counter[Level] = Counter()
        self.costs: list[Cost | None] = []
        """Cost of each frame; None if it cannot be counted."""
        self.kept_shares: list[float] = []
        """Share of the blocks that ran, of each partial frame."""

    def add(self, result: FrameResult, truth: Labels | None) -> None:
        if truth is not None:
            self.counts.add(result.labels, truth)
        self.levels[result.level] += 1
        self.costs.append(result.cost)
        if result.level is Level.PARTIAL and result.keep:
            self.kept_shares.append(result.kept_blocks / len(result.keep))

    @property
    def miou(self) -> float:
        """Mean IoU in percent."""
        return 100 * self.counts.mean_iou()

    @property
    def num_frames(self) -> int:
        return self.levels.total()

    @property
    def cost(self) -> Cost | None:
        """Cost of a mean frame; None if it cannot be counted."""
        return mean_cost(self.costs)

    @property
    def kept_share(self) -> float:
        """Share of the blocks that ran on partial frames, in percent; NaN without partial frames."""
        return 100 * float(np.mean(self.kept_shares)) if self.kept_shares else float("nan")

    def macs_share(self, whole: Cost | None) -> float:
        """MACs of a mean frame as a share of those of `whole`, in percent; NaN if they are not counted."""
        return 100 * self.cost.macs / whole.macs if self.cost and whole and whole.macs else float("nan")

    def share(self, level: Level) -> float:
        """Share of the frames with this level, in percent."""
        return 100 * self.levels[level] / max(1, self.num_frames)

    def row(self, way: Way, settings: str = "") -> Row:
        """The sums as a row."""
        return Row(
            way=way,
            settings=settings,
            frames=self.num_frames,
            miou=percent(self.counts.mean_iou()),
            levels=tuple(LevelShare(level, round(self.share(level), 2)) for level in Level),
            kept_blocks=None if math.isnan(self.kept_share) else round(self.kept_share, 2),
            cost=FrameCost.of(self.cost),
        )


class DetailedMeter(Meter):
    """A meter that also compares with the base network on the same frames: by class, boundary, time and distance."""

    def __init__(self, class_names: Sequence[str]) -> None:
        num_classes = len(class_names)
        super().__init__(num_classes)
        self.class_names = class_names
        self.boundary = BoundaryIou(num_classes)
        self.consistency = Consistency(num_classes)
        self.agreement = ConfusionMatrix(num_classes)
        self.by_distance: dict[int, _DistanceCounts] = {}
        self._distances = self._computed = self._stale = 0

    def start_video(self) -> None:
        """Say that the next frame does not follow from the last one."""
        self.consistency.forget()

    def add_beside(
        self, answer: Answer, base: FrameResult, truth: Labels | None, correspondence: Correspondence | None
    ) -> None:
        """Add the next frame, beside the base network's result for it."""
        labels = answer.result.labels
        self.add(answer.result, truth)
        self.consistency.add(labels, correspondence)
        self.agreement.add(labels, base.labels)
        self._distances += answer.distance
        self._computed += answer.computed
        self._stale += answer.result.stale
        if truth is not None:
            self.boundary.add(labels, truth)
        if truth is not None and answer.result is not base:
            at_distance = self.by_distance.setdefault(answer.distance, _DistanceCounts(self.counts.num_classes))
            at_distance.add(labels, base.labels, truth)

    def row(self, way: Way, settings: str = "") -> Row:
        """The sums as a row; that of the base network itself has nothing by distance."""
        frames = max(1, self.num_frames)
        classes = zip(self.class_names, self.counts.iou(), strict=True)
        labeled = sum(each.num_frames for each in self.by_distance.values())
        return replace(
            super().row(way, settings),
            classes=tuple(ClassIou(name, percent(float(iou))) for name, iou in classes),
            boundary_iou=percent(self.boundary.mean()),
            consistency=percent(self.consistency.mean_iou()),
            agreement_pixels=percent(self.agreement.agreement()),
            agreement_miou=percent(self.agreement.mean_iou()),
            by_distance=tuple(each.score(at, labeled) for at, each in sorted(self.by_distance.items())),
            network_share=round(100 * self._computed / frames, 2),
            mean_distance=round(self._distances / frames, 3),
            stale_share=round(100 * self._stale / frames, 2),
        )


class _DistanceCounts:
    """Accuracy of a stream and of its base network on the frames of one distance."""

    def __init__(self, num_classes: int) -> None:
        self.stream, self.base = ConfusionMatrix(num_classes), ConfusionMatrix(num_classes)
        self.num_frames = 0

    def add(self, labels: Labels, base: Labels, truth: Labels) -> None:
        self.stream.add(labels, truth)
        self.base.add(base, truth)
        self.num_frames += 1

    def score(self, distance: int, labeled: int) -> DistanceScore:
        """labeled: frames with labels, at all distances together."""
        share = round(100 * self.num_frames / labeled, 2)
        return DistanceScore(distance, share, percent(self.stream.mean_iou()), percent(self.base.mean_iou()))


def mean_cost(costs: Sequence[Cost | None]) -> Cost | None:
    """The mean cost of frames; None if one cannot be counted, or there are none."""
    total = Cost()
    for cost in costs:
        if cost is None:
            return None
        total = total.plus(cost)
    return Cost(*(round(value / len(costs)) for value in total)) if costs else None
