"""Meters: everything that is measured of one stream, added up frame by frame."""

from __future__ import annotations

import math

from stmg.evaluation.measuring.accuracy import BoundaryIou, ConfusionMatrix, Consistency, Correspondence
from stmg.evaluation.measuring.streams import StreamFigures
from stmg.evaluation.results import ClassIou, DistanceScore, FrameCost, LevelShare, StreamScores, percent
from stmg.streaming.schedulers import Level
from stmg.streaming.state import FrameResult
from stmg.video.labels import Labels


class StreamMeter:
    """Adds up the figures of one stream."""

    def __init__(self, num_classes: int) -> None:
        self.figures = StreamFigures(ConfusionMatrix(num_classes))
        self.boundary = BoundaryIou(num_classes)
        self.consistency = Consistency(num_classes)
        self.agreement = ConfusionMatrix(num_classes)
        self.by_distance: dict[int, DistanceCounts] = {}
        self._num_classes = num_classes

    def add(
        self,
        result: FrameResult,
        truth: Labels | None,
        correspondence: Correspondence | None,
        base: Labels,
        distance: int | None = None,
    ) -> None:
        """A frame; `base` are the base network's labels, `distance` the frames to where the stream's labels come from.

        Without a distance (the base network itself) nothing is told apart by it.
        """
        self.figures.add(result, truth)
        self.consistency.add(result.labels, correspondence)
        self.agreement.add(result.labels, base)
        if truth is not None:
            self.boundary.add(result.labels, truth)
            if distance is not None:
                self.by_distance.setdefault(distance, DistanceCounts(self._num_classes)).add(result.labels, base, truth)

    def scores(self, class_names: tuple[str, ...]) -> StreamScores:
        figures = self.figures
        classes = zip(class_names, figures.counts.iou(), strict=True)
        labeled = sum(each.num_frames for each in self.by_distance.values())
        return StreamScores(
            frames=figures.num_frames,
            miou=percent(figures.counts.mean_iou()),
            classes=tuple(ClassIou(name, percent(float(iou))) for name, iou in classes),
            boundary_iou=percent(self.boundary.mean()),
            consistency=percent(self.consistency.mean_iou()),
            agreement_pixels=percent(self.agreement.agreement()),
            agreement_miou=percent(self.agreement.mean_iou()),
            by_distance=tuple(each.score(at, labeled) for at, each in sorted(self.by_distance.items())),
            levels=tuple(LevelShare(level, round(figures.share(level), 2)) for level in Level),
            kept_blocks=None if math.isnan(figures.kept_share) else round(figures.kept_share, 2),
            cost=FrameCost.of(figures.cost),
        )


class DistanceCounts:
    """Accuracy of a stream and of its base network on the frames of one distance."""

    def __init__(self, num_classes: int) -> None:
        self.stream, self.base = ConfusionMatrix(num_classes), ConfusionMatrix(num_classes)
        self.num_frames = 0

    def add(self, labels: Labels, base: Labels, truth: Labels) -> None:
        self.stream.add(labels, truth)
        self.base.add(base, truth)
        self.num_frames += 1

    def score(self, distance: int, labeled: int) -> DistanceScore:
        """Of `labeled` frames at all distances together."""
        share = round(100 * self.num_frames / labeled, 2)
        return DistanceScore(distance, share, percent(self.stream.mean_iou()), percent(self.base.mean_iou()))
