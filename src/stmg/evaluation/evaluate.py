"""Evaluation of streams beside their base network, in one pass over the same frames."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from stmg.data.dataset import Dataset, Video
from stmg.evaluation.inputs import EVERY_FRAME, Model, Subject, open_data, open_model
from stmg.evaluation.lanes import Answer, OfflineLane, SteppedLane, make_lanes
from stmg.evaluation.machine import this_machine
from stmg.evaluation.measuring.accuracy import ConfusionMatrix, Consistency, Correspondence
from stmg.evaluation.measuring.meters import StreamMeter
from stmg.evaluation.measuring.streams import StreamFigures, read_frames
from stmg.evaluation.results import EvaluationResult, FrameRecord, PairScores, Size, percent
from stmg.evaluation.thumbnails import Thumbnails
from stmg.segmenter import VideoSegmenter
from stmg.streaming.flow import warp
from stmg.streaming.motion import NoMotion
from stmg.streaming.schedulers import FixedPeriod, Level
from stmg.streaming.settings import Mode
from stmg.streaming.state import FrameResult
from stmg.video.frames import Frame, Image
from stmg.video.labels import Labels

MAX_RECORDS = 2000  # frames that are recorded one by one


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
    """Accuracy and cost of a model, run as a stream in each mode, beside its base network on every frame.

    model: a segmenter, or what `stmg.load` makes one from.
    data: a dataset, or where it is; on videos without labels only the agreement with the base network is measured.
    size: (height, width) of the frames; if not given, what the model is meant for, 360x480 if it takes any.
    limit: frames of each video.
    mode: offline, online or realtime alone; if not given, online and offline.
    network_intervals: of realtime, how many frame intervals the network takes, each evaluated exactly with that delay;
        if not given, 1, 2 and 4.
    paper_protocol: also score each labeled frame given the frame before it as its key frame.
    name: what the result calls the model.
    on_frame: called with the result of each frame, online if that is among the modes.

    After Ctrl-C the result is that of the frames until then, and `interrupted` is True.

        result = stmg.evaluate("lite0-camvid", "data/camvid")
        result.base.miou, result.mode("online").scores.miou, result.mode("offline").scores.miou
    """
    subject = open_model(model, size, name)
    dataset = open_data(data, split, subject)
    run = _Evaluation(
        subject, dataset, make_lanes(subject.segmenter, dataset.num_classes, mode, network_intervals), on_frame
    )
    pairs = None
    # Exports have to compute exactly the blocks that were chosen, or another stream than this one is measured.
    with subject.segmenter.runtime.exact_patterns():
        try:
            for video in dataset.videos(split):
                run.add_video(video, limit)
            if paper_protocol and any(video.labeled for video in dataset.videos(split)):
                pairs = evaluate_pairs(subject.segmenter, dataset, split, subject.size, limit)
        except KeyboardInterrupt:
            if not run.records:
                raise
            run.interrupted = True
    modes = tuple(lane.scores(dataset.class_names) for lane in run.lanes)
    return EvaluationResult(
        machine=this_machine(),
        model=subject.name,
        interrupted=run.interrupted,
        data=dataset.name,
        split=split,
        size=subject.size,
        settings=modes[0].settings,
        runtime=subject.segmenter.runtime.description,
        base=run.base_meter.scores(dataset.class_names),
        modes=modes,
        truth_consistency=percent(run.truth_consistency.mean_iou()),
        motion=dict(run.motion),
        frames=tuple(run.records),
        paper_protocol=pairs,
        pictures=run.thumbnails.pictures(),
    )


def evaluate_pairs(
    segmenter: VideoSegmenter, dataset: Dataset, split: str, size: Size, limit: int | None
) -> PairScores:
    """The paper's protocol: each labeled frame given the frame before it as its key frame, whatever came earlier."""
    between = Level.PARTIAL if segmenter.runtime.has_mask_generator else Level.CARRY
    pairs = segmenter.another(mode="online", scheduler=FixedPeriod(2, between), fusion=0, max_change=None)
    whole = segmenter.another(**EVERY_FRAME)
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


def name_mask(segmenter: VideoSegmenter, mode: Mode, result: FrameResult) -> str:
    """What `changed` of a frame that is no key frame shows, by what made it."""
    if result.corrected:
        return "the corrector's mask"
    learned = mode == "online" and segmenter.online.uses_masks
    return "spatial mask" if learned else "what the flow leaves unexplained"


class _Pending(NamedTuple):
    """A frame that not every lane has answered."""

    frame: Frame
    truth: Labels | None
    whole: FrameResult
    """The base network's."""
    answers: list[Answer | None]
    """Of the lanes; None from the offline one, whose answers come later."""


class _Evaluation:
    """A segmenter in several modes and its base network over the same frames."""

    def __init__(
        self,
        subject: Subject,
        dataset: Dataset,
        lanes: list[SteppedLane | OfflineLane],
        on_frame: Callable[[FrameResult], None] | None,
    ) -> None:
        self.segmenter, self.size = subject.segmenter, subject.size
        self.base = self.segmenter.another(**EVERY_FRAME)
        self.lanes, self.on_frame = lanes, on_frame
        self.base_meter = StreamMeter(dataset.num_classes)
        self.truth_consistency = Consistency(dataset.num_classes)
        self.motion: Counter[str] = Counter()
        self.records: list[FrameRecord] = []
        self.thumbnails = Thumbnails()
        self.interrupted = False

    def add_video(self, video: Video, limit: int | None) -> None:
        """A video from a fresh start. A frame counts when every lane has answered it, so that all count the same."""
        self.base.reset()
        self.base_meter.consistency.forget()
        for lane in self.lanes:
            lane.start_video()
        self._image: Image | None = None
        self._truth: Labels | None = None
        waiting: deque[_Pending] = deque()

        def feed() -> Iterator[Frame]:
            for index, frame in read_frames(video, self.size, limit):
                whole = self.base.step(frame)
                answers = [None if isinstance(lane, OfflineLane) else lane.answer(frame, whole) for lane in self.lanes]
                waiting.append(_Pending(frame, video.truth(index, self.size), whole, answers))
                yield frame

        offline = next((lane for lane in self.lanes if isinstance(lane, OfflineLane)), None)
        if offline is None:
            for _ in feed():
                pending = waiting.popleft()
                self._add(pending, [answer for answer in pending.answers if answer is not None])
            return
        with closing(offline.answers(feed())) as late:
            for answer in late:
                pending = waiting.popleft()
                self._add(pending, [answer if each is None else each for each in pending.answers])

    def _add(self, pending: _Pending, answers: list[Answer]) -> None:
        """The next frame, answered by all; truth is used where there is any."""
        frame, truth, whole = pending.frame, pending.truth, pending.whole
        correspondence = None if self._image is None else Correspondence(self._image, frame.image)
        self.base_meter.add(whole, truth, correspondence, whole.labels)
        for lane, answer in zip(self.lanes, answers, strict=True):
            lane.meter.add(answer.result, truth, correspondence, whole.labels, answer.distance)
            lane.count(answer)
        if truth is None or self._truth is None:
            self.truth_consistency.forget()
        if truth is not None:
            self.truth_consistency.add(truth, correspondence)
        result = answers[0].result
        if correspondence is not None and truth is not None and self._truth is not None:
            still = isinstance(self.segmenter.settings.motion, NoMotion)
            before = self._truth if still else warp(self._truth, correspondence.flow, nearest=True)
            self.thumbnails.add_masks(result, truth, before, name_mask(self.segmenter, self.lanes[0].mode, result))
        self.thumbnails.add(result)
        self.motion[result.motion] += 1
        if len(self.records) < MAX_RECORDS:
            self.records.append(_record(result))
        self._image, self._truth = frame.image, truth
        if self.on_frame is not None:
            self.on_frame(result)


def _record(result: FrameResult) -> FrameRecord:
    blocks = len(result.keep)
    return FrameRecord(
        level=result.level,
        distortion=None if math.isnan(result.distortion) else round(result.distortion, 5),
        drift=round(result.drift, 5),
        kept_blocks=round(result.kept_blocks / blocks, 4) if blocks else None,
        latency_ms=round(result.latency_ms, 3),
    )
