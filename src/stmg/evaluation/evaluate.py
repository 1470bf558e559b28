"""Evaluation of a stream beside its base network, in one pass over the same frames."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from stmg.data.dataset import Dataset
from stmg.evaluation.accuracy import BoundaryIou, ConfusionMatrix, Consistency, Correspondence
from stmg.evaluation.inputs import Model, describe_settings, open_data, open_model
from stmg.evaluation.machine import this_machine
from stmg.evaluation.results import (
    ClassIou,
    DistanceScore,
    EvaluationResult,
    FrameCost,
    FrameRecord,
    LevelShare,
    PairScores,
    Size,
    StreamScores,
    percent,
)
from stmg.evaluation.streams import StreamFigures, needs_vectors, read_frames
from stmg.evaluation.thumbnails import Thumbnails
from stmg.segmenter import VideoSegmenter
from stmg.streaming.flow import warp
from stmg.streaming.motion import NoMotion
from stmg.streaming.schedulers import AlwaysKey, FixedPeriod, Level
from stmg.streaming.state import FrameResult
from stmg.video.frames import Frame, Image
from stmg.video.labels import Labels

MAX_RECORDS = 2000  # frames that are recorded one by one


def evaluate(
    segmenter: Model,
    data: Dataset | str | Path,
    *,
    split: str = "val",
    size: Size | None = None,
    limit: int | None = None,
    paper_protocol: bool = False,
    name: str | None = None,
    on_frame: Callable[[FrameResult], None] | None = None,
) -> EvaluationResult:
    """Accuracy and cost of a segmenter, run as a stream, beside its base network on every frame.

    segmenter: a segmenter, or what `stmg.load` makes one from.
    data: a dataset, or where it is; on videos without labels only the agreement with the base network is measured.
    size: (height, width) of the frames; if not given, what the model is meant for, 360x480 if it takes any.
    limit: frames of each video.
    paper_protocol: also score each labeled frame given the frame before it as its key frame.
    name: what the result calls the model.
    on_frame: called with the stream's result of each frame.

    After Ctrl-C the result is that of the frames until then, and `interrupted` is True.

        result = stmg.evaluate("lite0-camvid", "data/camvid")
        result.base.miou, result.stream.miou
    """
    subject = open_model(segmenter, size, name)
    dataset = open_data(data, split, subject)
    run = _Evaluation(subject.segmenter, dataset)
    pairs = None
    # Exports have to compute exactly the blocks that were chosen, or another stream than this one is measured.
    with subject.segmenter.runtime.exact_patterns():
        try:
            for video in dataset.videos(split):
                run.start_video()
                for index, frame in read_frames(video, subject.size, limit, needs_vectors(subject.segmenter)):
                    result = run.step(frame, video.truth(index, subject.size))
                    if on_frame is not None:
                        on_frame(result)
            if paper_protocol and any(video.labeled for video in dataset.videos(split)):
                pairs = evaluate_pairs(subject.segmenter, dataset, split, subject.size, limit)
        except KeyboardInterrupt:
            if not run.records:
                raise
            run.interrupted = True
    return EvaluationResult(
        machine=this_machine(),
        model=subject.name,
        interrupted=run.interrupted,
        data=dataset.name,
        split=split,
        size=subject.size,
        settings=describe_settings(subject.segmenter),
        runtime=subject.segmenter.runtime.description,
        base=run.base_meter.scores(dataset.class_names),
        stream=run.stream_meter.scores(dataset.class_names),
        truth_consistency=percent(run.truth_consistency.mean_iou()),
        motion=dict(run.motion),
        frames=tuple(run.records),
        paper_protocol=pairs,
        pictures=run.thumbnails.pictures(learned_masks=subject.segmenter.online.uses_masks),
    )


def evaluate_pairs(
    segmenter: VideoSegmenter, dataset: Dataset, split: str, size: Size, limit: int | None = None
) -> PairScores:
    """The paper's protocol: each labeled frame given the frame before it as its key frame, whatever came earlier."""
    between = Level.PARTIAL if segmenter.runtime.has_mask_generator else Level.CARRY
    pairs = segmenter.another(scheduler=FixedPeriod(2, between), fusion=0)
    whole = segmenter.another(scheduler=AlwaysKey())
    base, stream = (StreamFigures(ConfusionMatrix(dataset.num_classes)) for _ in range(2))
    with segmenter.runtime.exact_patterns():
        for video in dataset.videos(split):
            for index in [index for index in video.labeled if 0 < index < (limit or len(video))]:
                truth = video.truth(index, size)
                pairs.reset()
                pairs.step(video.image(index - 1, size))
                image = video.image(index, size)
                base.add(whole.step(image), truth)
                stream.add(pairs.step(image), truth)
    return PairScores(stream.num_frames, between, percent(base.counts.mean_iou()), percent(stream.counts.mean_iou()))


class _Evaluation:
    """A segmenter and its base network over the same frames."""

    def __init__(self, segmenter: VideoSegmenter, dataset: Dataset) -> None:
        num_classes = dataset.num_classes
        self.segmenter = segmenter
        self.base = segmenter.another(scheduler=AlwaysKey())
        self.base_meter, self.stream_meter = _StreamMeter(num_classes), _StreamMeter(num_classes)
        self.truth_consistency = Consistency(num_classes)
        self.motion: Counter[str] = Counter()
        self.records: list[FrameRecord] = []
        self.thumbnails = Thumbnails()
        self.interrupted = False

    def start_video(self) -> None:
        self.base.reset()
        self.segmenter.reset()
        for meter in (self.base_meter, self.stream_meter):
            meter.consistency.forget()
        self._image: Image | None = None
        self._truth: Labels | None = None
        self._distance = 0

    def step(self, frame: Frame, truth: Labels | None) -> FrameResult:
        """The next frame through both; truth is used where there is any."""
        correspondence = None if self._image is None else Correspondence(self._image, frame.image)
        whole, result = self.base.step(frame), self.segmenter.step(frame)
        self._distance = 0 if result.level is Level.KEY else self._distance + 1
        self.base_meter.add(whole, truth, correspondence, whole.labels, self._distance)
        self.stream_meter.add(result, truth, correspondence, whole.labels, self._distance)
        if truth is None or self._truth is None:
            self.truth_consistency.forget()
        if truth is not None:
            self.truth_consistency.add(truth, correspondence)
        if correspondence is not None and truth is not None and self._truth is not None:
            still = isinstance(self.segmenter.settings.motion, NoMotion)
            before = self._truth if still else warp(self._truth, correspondence.flow, nearest=True)
            self.thumbnails.add_masks(result, truth, before)
        self.thumbnails.add(result)
        self.motion[result.motion] += 1
        if len(self.records) < MAX_RECORDS:
            self.records.append(_record(result))
        self._image, self._truth = frame.image, truth
        return result


class _StreamMeter:
    """Adds up everything that is measured of one stream."""

    def __init__(self, num_classes: int) -> None:
        self.figures = StreamFigures(ConfusionMatrix(num_classes))
        self.boundary = BoundaryIou(num_classes)
        self.consistency = Consistency(num_classes)
        self.agreement = ConfusionMatrix(num_classes)
        self.by_distance: dict[int, ConfusionMatrix] = {}
        self._num_classes = num_classes

    def add(
        self,
        result: FrameResult,
        truth: Labels | None,
        correspondence: Correspondence | None,
        base: Labels,
        distance: int,
    ) -> None:
        """A frame; `base` are the base network's labels, `distance` the frames since the stream's last key frame."""
        self.figures.add(result, truth)
        self.consistency.add(result.labels, correspondence)
        self.agreement.add(result.labels, base)
        if truth is not None:
            self.boundary.add(result.labels, truth)
            self.by_distance.setdefault(distance, ConfusionMatrix(self._num_classes)).add(result.labels, truth)

    def scores(self, class_names: tuple[str, ...]) -> StreamScores:
        figures = self.figures
        classes = zip(class_names, figures.counts.iou(), strict=True)
        distances = sorted(self.by_distance.items())
        return StreamScores(
            frames=figures.num_frames,
            miou=percent(figures.counts.mean_iou()),
            classes=tuple(ClassIou(name, percent(float(iou))) for name, iou in classes),
            boundary_iou=percent(self.boundary.mean()),
            consistency=percent(self.consistency.mean_iou()),
            agreement_pixels=percent(self.agreement.agreement()),
            agreement_miou=percent(self.agreement.mean_iou()),
            by_distance=tuple(DistanceScore(distance, percent(each.mean_iou())) for distance, each in distances),
            levels=tuple(LevelShare(level, round(figures.share(level), 2)) for level in Level),
            kept_blocks=None if math.isnan(figures.kept_share) else round(figures.kept_share, 2),
            cost=FrameCost.of(figures.cost),
        )


def _record(result: FrameResult) -> FrameRecord:
    blocks = len(result.keep)
    return FrameRecord(
        level=result.level,
        distortion=None if math.isnan(result.distortion) else round(result.distortion, 5),
        drift=round(result.drift, 5),
        kept_blocks=round(result.kept_blocks / blocks, 4) if blocks else None,
        latency_ms=round(result.latency_ms, 3),
    )
