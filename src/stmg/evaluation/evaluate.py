"""Evaluation of a segmenter beside its base network, in one pass over the same frames."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import cv2
import numpy as np

from stmg.data.dataset import Dataset
from stmg.evaluation.accuracy import BoundaryIou, ConfusionMatrix, Consistency, Followed
from stmg.evaluation.stream import StreamFigures, frames_of, needs_vectors
from stmg.frames import Image
from stmg.motion import NoMotion, move
from stmg.overlay import IGNORE, draw_mask
from stmg.scheduler import AlwaysKey, FixedPeriod, Level
from stmg.segmenter import VideoSegmenter
from stmg.state import FrameResult, Labels
from stmg.timeline import COLOURS

MOST_FRAMES = 2000  # whose distortion and blocks are kept one by one
THUMBNAIL = (90, 120)
STRIP = 24  # frames shown in a row of key frames and others
SHOWN = 4  # frames whose masks are shown
MASK = (180, 240)


class Judge:
    """Everything that is told of one contender."""

    def __init__(self, num_classes: int) -> None:
        self.figures = StreamFigures(ConfusionMatrix(num_classes))
        self.boundary = BoundaryIou(num_classes)
        self.consistency = Consistency(num_classes)
        self.agreement = ConfusionMatrix(num_classes)
        self.by_distance: dict[int, ConfusionMatrix] = {}
        self._num_classes = num_classes

    def add(
        self, result: FrameResult, truth: Labels | None, followed: Followed | None, base: Labels, distance: int
    ) -> None:
        """A frame, its truth, how it follows from the one before, the base's labels, frames since stmg's key frame."""
        self.figures.add(result, truth)
        self.consistency.add(result.labels, followed)
        self.agreement.add(result.labels, base)
        if truth is not None:
            self.boundary.add(result.labels, truth)
            place = self.by_distance.setdefault(distance, ConfusionMatrix(self._num_classes))
            place.add(result.labels, truth)

    def told(self, class_names: tuple[str, ...]) -> dict[str, Any]:
        """Shares are in percent; what there is no truth for is None."""
        figures, cost = self.figures, self.figures.cost
        classes = zip(class_names, figures.counts.iou(), strict=True)
        return {
            "frames": figures.num_frames,
            "miou": percent(figures.counts.mean_iou()),
            "iou": {name: percent(value) for name, value in classes},
            "boundary_iou": percent(self.boundary.mean()),
            "consistency": percent(self.consistency.mean_iou()),
            "agreement_pixels": percent(self.agreement.agreement()),
            "agreement_miou": percent(self.agreement.mean_iou()),
            "by_distance": [
                {"distance": distance, "miou": percent(counts.mean_iou())}
                for distance, counts in sorted(self.by_distance.items())
            ],
            "levels": {str(level): round(figures.share(level), 2) for level in Level},
            "blocks_kept": None if math.isnan(figures.kept_share) else round(figures.kept_share, 2),
            "macs": None if cost is None else cost.macs,
            "macs_without_head": None if cost is None else cost.macs - cost.head_macs,
            "params": None if cost is None else cost.params,
        }


@dataclass
class Evaluation:
    """A segmenter and its base network, judged, and what there is to look at."""

    base: Judge
    ours: Judge
    truth_consistency: Consistency
    frames: list[dict[str, Any]] = field(default_factory=list)
    """Distortion, blocks and level, frame by frame."""
    strip: list[Image] = field(default_factory=list)
    masks: list[Image] = field(default_factory=list)
    motion: Counter[str] = field(default_factory=Counter)
    """Frames by where their field came from."""
    interrupted: bool = False


def evaluate(
    segmenter: VideoSegmenter,
    dataset: Dataset,
    split: str,
    size: tuple[int, int],
    limit: int | None = None,
    advance: Callable[[FrameResult], None] | None = None,
) -> Evaluation:
    """Every frame of every video through the base network and the segmenter; truth is used where there is any."""
    num_classes = dataset.num_classes
    found = Evaluation(Judge(num_classes), Judge(num_classes), Consistency(num_classes))
    base = segmenter.another(scheduler=AlwaysKey())
    try:
        for video in dataset.videos(split):
            base.reset()
            segmenter.reset()
            for judge in (found.base, found.ours):
                judge.consistency.forget()
            before: Image | None = None
            last: Labels | None = None
            distance = 0
            for place, frame in frames_of(video, size, limit, needs_vectors(segmenter)):
                truth = video.truth(place, size)
                followed = None if before is None else Followed(before, frame.image)
                whole, ours = base.step(frame), segmenter.step(frame)
                distance = 0 if ours.level is Level.KEY else distance + 1
                found.base.add(whole, truth, followed, whole.labels, distance)
                found.ours.add(ours, truth, followed, whole.labels, distance)
                if truth is None or last is None:
                    found.truth_consistency.forget()
                if truth is not None:
                    found.truth_consistency.add(truth, followed)
                if followed is not None and truth is not None and last is not None:
                    still = isinstance(segmenter.motion, NoMotion)
                    _show(found, ours, truth, last if still else move(last, followed.field, nearest=True))
                _keep(found, ours)
                before, last = frame.image, truth
                if advance is not None:
                    advance(ours)
    except KeyboardInterrupt:  # the frames that are judged are worth having
        found.interrupted = True
    return found


def paired(
    segmenter: VideoSegmenter, dataset: Dataset, split: str, size: tuple[int, int], limit: int | None = None
) -> tuple[StreamFigures, StreamFigures]:
    """The paper's protocol: each labelled frame given the frame before it as its key frame, whatever came earlier.

    Figures of the base network on the same frames, and of the segmenter.
    """
    between = Level.PARTIAL if segmenter.runtime.has_mask_generator else Level.CARRY
    pairs = segmenter.another(scheduler=FixedPeriod(2, between), fusion=0)
    whole = segmenter.another(scheduler=AlwaysKey())
    base, ours = (StreamFigures(ConfusionMatrix(dataset.num_classes)) for _ in range(2))
    for video in dataset.videos(split):
        for place in [place for place in video.labelled if 0 < place < (limit or len(video))]:
            truth = video.truth(place, size)
            pairs.reset()
            pairs.step(video.image(place - 1, size))
            image = video.image(place, size)
            base.add(whole.step(image), truth)
            ours.add(pairs.step(image), truth)
    return base, ours


def percent(value: float) -> float | None:
    return None if math.isnan(value) else round(100 * value, 3)


def _show(found: Evaluation, result: FrameResult, truth: Labels, last: Labels) -> None:
    """Frame, spatial mask and where the labels of the frame before no longer hold, of a few frames after computed ones.

    After a carried frame the mask tells of more than one frame, and cannot be held against the one before.
    """
    wanted = result.level is not Level.KEY and result.changed is not None and len(found.frames) >= 7 * len(found.masks)
    if not wanted or len(found.masks) == SHOWN or found.frames[-1]["level"] == Level.CARRY:
        return
    assert result.changed is not None
    changed = ((truth != last) & (truth != IGNORE) & (last != IGNORE)).astype(np.float32)
    panels = (result.image, draw_mask(result.image, result.changed), draw_mask(result.image, changed))
    found.masks.append(np.hstack([cv2.resize(panel, MASK[::-1]) for panel in panels]))


def _keep(found: Evaluation, result: FrameResult) -> None:
    """A little of each frame, for the pictures."""
    found.motion[result.motion] += 1
    if len(found.frames) < MOST_FRAMES:
        blocks = len(result.keep)
        found.frames.append(
            {
                "level": str(result.level),
                "distortion": None if math.isnan(result.distortion) else round(result.distortion, 5),
                "drift": round(result.drift, 5),
                "kept": round(result.kept_blocks / blocks, 4) if blocks else None,
                "latency_ms": round(result.latency_ms, 3),
            }
        )
    if len(found.strip) < STRIP:
        small = cv2.resize(result.overlay(), THUMBNAIL[::-1], interpolation=cv2.INTER_AREA)
        colour = tuple(bytes.fromhex(COLOURS[result.level][1:]))
        found.strip.append(cv2.copyMakeBorder(small, 4, 4, 4, 4, cv2.BORDER_CONSTANT, value=colour))
