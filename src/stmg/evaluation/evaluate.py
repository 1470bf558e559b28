"""Evaluation of streams beside their base network, in one pass over the same frames."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Literal

from stmg.data.catalogue import open_dataset
from stmg.data.dataset import Dataset
from stmg.errors import SettingsError
from stmg.evaluation.accuracy import Consistency, Correspondence
from stmg.evaluation.inputs import Model, open_data, open_model, read_source_size
from stmg.evaluation.machine import this_machine
from stmg.evaluation.measure import Moment, run_beside
from stmg.evaluation.meter import DetailedMeter, Meter
from stmg.evaluation.results import EvaluationResult, PairScores
from stmg.evaluation.rows import FrameRecord, percent
from stmg.evaluation.streams import Stream, open_way
from stmg.evaluation.thumbnails import Thumbnails
from stmg.evaluation.way import BASE, OFFLINE, ONLINE, Size, Way, chosen_settings
from stmg.segmenter import VideoSegmenter
from stmg.streaming.flow import warp
from stmg.streaming.motion import NoMotion
from stmg.streaming.result import FrameResult
from stmg.streaming.schedulers import FixedPeriod, Level
from stmg.streaming.settings import Mode, check_mode
from stmg.video.frames import Image
from stmg.video.labels import Labels

NETWORK_INTERVALS = (1, 2, 4)
MAX_RECORDS = 2000  # frames with a record of their own


def evaluate(
    model: Model,
    data: Dataset | str | Path,
    *,
    split: str = "val",
    size: Size | None = None,
    limit: int | None = None,
    mode: str | None = None,
    network_intervals: Sequence[int] | None = None,
    paper_protocol: bool = False,
    name: str | None = None,
    on_frame: Callable[[FrameResult], None] | None = None,
) -> EvaluationResult:
    """Measure accuracy and cost of a model, run as a stream in each mode, beside its base network on every frame.

    model: a segmenter, or what `stmg.load` makes one from.
    data: a dataset or its path. On videos without labels only the agreement with the base network is measured.
    size: (height, width) of the frames. Default: the size at which `segment` computes the video.
    limit: maximum number of frames of each video.
    mode: offline, online or realtime. Default: online and offline.
    network_intervals: for realtime, how many frame intervals the network takes. Each is simulated exactly.
        Default: 1, 2 and 4.
    paper_protocol: also score each labeled frame with the frame before it as its key frame.
    name: the name of the model in the result.
    on_frame: called with the result of each frame, of online if that is among the modes.

    After Ctrl-C the result covers the frames done so far, and `interrupted` is True.

        result = stmg.evaluate("lite0-camvid", "data/camvid")
        result.base.miou, result.mode("online").miou, result.mode("offline").miou
    """
    ways = list_ways(mode, network_intervals)
    found = data if isinstance(data, Dataset) else open_dataset(data)
    subject = open_model(model, size, name, source=None if size else read_source_size(found, split))
    dataset = open_data(found, split, subject)
    segmenter = subject.segmenter
    chosen = subject.chosen
    if mode is None:
        ways = [way for way in ways if segmenter.settings.can_run(way.mode)]
    modes = [replace(way, settings=chosen_settings(segmenter, chosen, way.mode)) for way in ways]
    streams = [open_way(way, segmenter) for way in (BASE, *modes)]
    run = _Evaluation(segmenter, streams, dataset.class_names, on_frame)
    pairs = None
    try:
        for video in dataset.videos(split):
            run.start_video()
            with closing(run_beside(streams, video, subject.size, limit)) as moments:  # type: ignore[type-var]
                for moment in moments:
                    run.add(moment)
        if paper_protocol and any(video.labeled for video in dataset.videos(split)):
            pairs = evaluate_pairs(segmenter, dataset, split, subject.size, limit)
    except KeyboardInterrupt:
        if not run.records:
            raise
        run.interrupted = True
    base, *rows = (meter.row(stream.way, stream.settings) for stream, meter in zip(streams, run.meters, strict=True))
    return EvaluationResult(
        machine=this_machine(),
        model=subject.name,
        interrupted=run.interrupted,
        data=dataset.name,
        split=split,
        size=subject.size,
        settings=rows[0].settings,
        runtime=segmenter.runtime.description,
        base=base,
        modes=tuple(rows),
        truth_consistency=percent(run.truth_consistency.mean_iou()),
        motion=dict(run.motion),
        frames=tuple(run.records),
        paper_protocol=pairs,
        pictures=run.thumbnails.pictures(),
    )


def list_ways(mode: str | None, network_intervals: Sequence[int] | None) -> list[Way]:
    """The ways to run beside the base network: online and offline if no mode is chosen."""
    if mode is not None:
        check_mode(mode)
    if network_intervals is not None and mode != "realtime":
        raise SettingsError(f"network_intervals are for realtime; mode is {mode or 'not given'}")
    intervals = NETWORK_INTERVALS if network_intervals is None else network_intervals
    if not intervals or any(each < 1 for each in intervals):
        raise SettingsError(f"network_intervals must be whole numbers from 1; got {', '.join(map(str, intervals))}")
    if mode == "realtime":
        kinds: tuple[Literal["realtime", "copied-labels"], ...] = ("realtime", "copied-labels")
        return [Way(kind=kind, intervals=each) for each in intervals for kind in kinds]
    return [way for way in (ONLINE, OFFLINE) if mode in (None, way.mode)]


def evaluate_pairs(
    segmenter: VideoSegmenter, dataset: Dataset, split: str, size: Size, limit: int | None
) -> PairScores:
    """Score each labeled frame with the frame before it as its key frame: the paper's protocol."""
    between = Level.PARTIAL if segmenter.runtime.has_mask_generator else Level.CARRY
    pairs = segmenter.another(mode="online", scheduler=FixedPeriod(2, between), fusion=0, max_change=None)
    whole = open_way(BASE, segmenter)
    base, stream = Meter(dataset.num_classes), Meter(dataset.num_classes)
    for video in dataset.videos(split):
        for index in [index for index in video.labeled if 0 < index < (limit or len(video))]:
            truth = video.truth(index, size)
            pairs.reset()
            pairs.step(video.image(index - 1, size))
            image = video.image(index, size)
            base.add(whole.stepper.step(image), truth)
            stream.add(pairs.step(image), truth)
    return PairScores(stream.num_frames, between, percent(base.counts.mean_iou()), percent(stream.counts.mean_iou()))


def name_mask(segmenter: VideoSegmenter, mode: Mode, result: FrameResult) -> str:
    """The name of what `changed` holds on a frame that is no key frame."""
    if result.corrected:
        return "the corrector's mask"
    learned = mode == "online" and segmenter.online.uses_masks
    return "spatial mask" if learned else "what the flow leaves unexplained"


class _Evaluation:
    """Adds up the streams of an evaluation; the first of them is the base network."""

    def __init__(
        self,
        segmenter: VideoSegmenter,
        streams: Sequence[Stream],
        class_names: Sequence[str],
        on_frame: Callable[[FrameResult], None] | None,
    ) -> None:
        self.meters = [DetailedMeter(class_names) for _ in streams]
        self.truth_consistency = Consistency(len(class_names))
        self.motion: Counter[str] = Counter()
        self.records: list[FrameRecord] = []
        self.thumbnails = Thumbnails()
        self.interrupted = False
        self._segmenter, self._mode, self._on_frame = segmenter, streams[1].way.mode, on_frame

    def start_video(self) -> None:
        """Say that the next frame does not follow from the last one."""
        for meter in self.meters:
            meter.start_video()
        self._image: Image | None = None
        self._truth: Labels | None = None

    def add(self, moment: Moment) -> None:
        """Add the next frame, answered by all streams."""
        image, truth = moment.frame.image, moment.truth
        correspondence = None if self._image is None else Correspondence(self._image, image)
        whole, result = moment.answers[0].result, moment.answers[1].result
        for meter, answer in zip(self.meters, moment.answers, strict=True):
            meter.add_beside(answer, whole, truth, correspondence)
        if truth is None or self._truth is None:
            self.truth_consistency.forget()
        if truth is not None:
            self.truth_consistency.add(truth, correspondence)
        if correspondence is not None and truth is not None and self._truth is not None:
            still = isinstance(self._segmenter.settings.motion, NoMotion)
            before = self._truth if still else warp(self._truth, correspondence.flow, nearest=True)
            self.thumbnails.add_masks(result, truth, before, name_mask(self._segmenter, self._mode, result))
        self.thumbnails.add(result)
        self.motion[result.motion] += 1
        if len(self.records) < MAX_RECORDS:
            self.records.append(_record(result))
        self._image, self._truth = image, truth
        if self._on_frame is not None:
            self._on_frame(result)


def _record(result: FrameResult) -> FrameRecord:
    blocks = len(result.keep)
    return FrameRecord(
        level=result.level,
        distortion=None if math.isnan(result.distortion) else round(result.distortion, 5),
        drift=round(result.drift, 5),
        kept_blocks=round(result.kept_blocks / blocks, 4) if blocks else None,
        latency_ms=round(result.latency_ms, 3),
    )
