"""Running ways over the same frames: side by side for accuracy and cost, in turns for speed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import NamedTuple

import numpy as np

from stmg.data.dataset import Dataset, Video
from stmg.evaluation.inputs import Clip, read_frames, split_videos
from stmg.evaluation.live import DelayedExecutor, LastFinished, run_live
from stmg.evaluation.meter import Answer, Meter
from stmg.evaluation.rows import Live, Row
from stmg.evaluation.speed import Times, time_interleaved, time_passes
from stmg.evaluation.streams import Stepper, Stream
from stmg.evaluation.way import BASE, ONLINE, Size, Way
from stmg.streaming.cost import Cost
from stmg.streaming.result import FrameResult
from stmg.streaming.runtime import Runtime
from stmg.streaming.schedulers import Level
from stmg.streaming.settings import Mode
from stmg.video.frames import Frame
from stmg.video.labels import Labels


class Moment(NamedTuple):
    """A frame, and the answer of each stream to it."""

    frame: Frame
    truth: Labels | None
    answers: tuple[Answer, ...]


def play(stream: Stream, frames: Iterator[Frame], base: Callable[[], FrameResult] | None = None) -> Iterator[Answer]:
    """Start a stream afresh and give its answer to each frame. Offline, answers come later than their frames.

    base: gives the base network's result for the newest frame; copied labels are made of these.
    """
    way = stream.way
    if way.mode == "offline":
        yield from _play_offline(stream, frames)
    elif way.intervals is None:
        yield from _play_online(stream, frames)
    elif way.kind == "copied-labels":
        assert base is not None, way
        yield from _play_copied(way.intervals, frames, base)
    else:
        yield from _play_realtime(stream, way.intervals, frames)


def _play_online(stream: Stream, frames: Iterator[Frame]) -> Iterator[Answer]:
    stream.stepper.reset()
    distance = 0
    for frame in frames:
        result = stream.stepper.step(frame)
        distance = 0 if result.level is Level.KEY else distance + 1
        yield Answer(result, distance, result.level is not Level.CARRY)


def _play_offline(stream: Stream, frames: Iterator[Frame]) -> Iterator[Answer]:
    with closing(stream.segmenter.stream(frames, mode="offline")) as results:  # type: ignore[type-var]
        for result in results:
            yield Answer(result, result.anchor_distance, result.level is not Level.CARRY)


def _play_realtime(stream: Stream, intervals: int, frames: Iterator[Frame]) -> Iterator[Answer]:
    """Realtime with a network that takes `intervals` frame intervals."""
    executor = DelayedExecutor(intervals)
    before = 0

    def tick() -> Iterator[Frame]:
        nonlocal before
        for frame in frames:
            before = executor.num_runs
            executor.tick()
            yield frame

    for result in stream.segmenter.stream(tick(), mode="realtime", executor=executor):
        yield Answer(result, result.anchor_distance, executor.num_runs > before)


def _play_copied(intervals: int, frames: Iterator[Frame], base: Callable[[], FrameResult]) -> Iterator[Answer]:
    """The newest labels that a network which takes `intervals` frame intervals has finished, not warped."""
    last = LastFinished(intervals)
    for _ in frames:
        whole = base()
        labels, age, started = last.show(whole.labels)
        level = Level.CARRY if age else Level.KEY
        count_cost = whole.count_cost if started else Cost
        result = replace(whole, labels=labels, level=level, anchor_distance=age, count_cost=count_cost)
        yield Answer(result, age, started)


def run_beside(streams: Sequence[Stream], video: Video, size: Size, limit: int | None = None) -> Iterator[Moment]:
    """Run streams over a video side by side, reading it once. The first is the base network; at most one is offline.

    A frame is given once every stream has answered it, so that all count the same frames.
    """
    queues: list[deque[Frame]] = [deque() for _ in streams]
    late = next((at for at, stream in enumerate(streams) if stream.way.mode == "offline"), None)
    newest: list[FrameResult] = []
    players = [
        None if at == late else play(stream, iter(queue.popleft, None), lambda: newest[-1])
        for at, (stream, queue) in enumerate(zip(streams, queues, strict=True))
    ]
    waiting: deque[tuple[Frame, Labels | None, list[Answer | None]]] = deque()

    def feed() -> Iterator[Frame]:
        for index, frame in read_frames(video, size, limit):
            answers: list[Answer | None] = []
            for queue, player in zip(queues, players, strict=True):
                queue.append(frame)
                answers.append(None if player is None else next(player))
                if len(answers) == 1 and answers[0] is not None:
                    newest[:] = [answers[0].result]
            waiting.append((frame, video.truth(index, size), answers))
            yield frame

    def finish(late_answer: Answer | None = None) -> Moment:
        frame, truth, answers = waiting.popleft()
        complete = tuple(answer or late_answer for answer in answers)
        assert all(complete)
        return Moment(frame, truth, complete)  # type: ignore[arg-type]

    if late is None:
        for _ in feed():
            yield finish()
        return
    with closing(play(streams[late], feed())) as answers:  # type: ignore[type-var]
        for answer in answers:
            yield finish(answer)


def measure_stream(stepper: Stepper, dataset: Dataset, split: str, size: Size) -> Meter:
    """Measure accuracy and cost of a segmenter, or a baseline, frame by frame over a split."""
    meter, stream = Meter(dataset.num_classes), Stream(ONLINE, stepper)
    for video in dataset.videos(split):
        for moment in run_beside([stream], video, size):
            meter.add(moment.answers[0].result, moment.truth)
    return meter


def base_cost(runtime: Runtime, size: Size) -> Cost | None:
    """Cost of a frame computed whole."""
    return runtime.cost(size, Level.KEY, (), 1.0, masked=False)


@dataclass(frozen=True)
class Measurements:
    """Measured times of ways over a clip."""

    meters: dict[Way, Meter]
    stepped: dict[Way, Times]
    """Times of ways that run frame by frame."""
    passes: dict[Way, Times]
    """Wall times over whole passes: of offline, and of the ways that it is compared with."""
    live: dict[Way, Live]

    def times(self, way: Way) -> Times:
        return self.passes[way] if way.mode == "offline" else self.stepped[way]

    def row(self, stream: Stream, extra_ms: float = 0.0) -> Row:
        """The row of a stream, timed beside the base network on its runtime; `extra_ms` is added to each frame."""
        way = stream.way
        row = self.meters[way].row(way, stream.settings)
        if way in self.live:
            return replace(row, live=self.live[way])
        base = self.passes.get(way.reference) if way.mode == "offline" else None
        return replace(row, timing=self.times(way).relative_to(base or self.stepped[way.reference], extra_ms))

    def pass_rows(self) -> list[Row]:
        """The rows of whole passes: speed alone."""
        return [
            Row(way=way, timing=times.relative_to(self.passes[way.reference])) for way, times in self.passes.items()
        ]


def measure_ways(
    streams: Sequence[Stream],
    clip: Clip,
    num_classes: int,
    repeats: int = 1,
    *,
    on_result: Callable[[Way, int, FrameResult], None] | None = None,
    on_progress: Callable[[Way, int], None] | None = None,
    base_passes: bool = True,
) -> Measurements:
    """Run every way over a clip, `repeats` times: steps in turns, offline in whole passes, realtime at its rate.

    num_classes: of the clip's labels; 0 if there are none.
    on_result: called once for each way and frame, with the frame's index in the clip and its result.
    on_progress: called with a way and the number of frames it has just finished.
    base_passes: also time the base network and online over whole passes, which offline is then compared with.
    """
    progress = on_progress or (lambda way, frames: None)
    meters = {stream.way: Meter(num_classes) for stream in streams}
    scored = {stream.way for stream in streams if stream.scored}

    def add(way: Way, index: int, result: FrameResult) -> None:
        meters[way].add(result, clip.truths[index] if way in scored else None)
        if on_result is not None:
            on_result(way, index, result)

    def step(way: Way, repeat: int, index: int, result: FrameResult) -> None:
        if repeat == 0:
            add(way, index, result)
        progress(way, 1)

    by_mode = {mode: [stream for stream in streams if stream.way.mode == mode] for mode in ("online", "offline")}
    stepped = time_interleaved(by_mode["online"], clip.frames, repeats, step, clip.starts)
    passes = _measure_passes(streams, clip, repeats, add, progress, base_passes)
    live: dict[Way, Live] = {}
    for stream in streams:
        if stream.way.mode == "realtime":
            assert clip.rate is not None
            shown: list[FrameResult] = []
            live[stream.way] = run_live(stream.segmenter, split_videos(clip), clip.rate, shown.append)
            for index, result in enumerate(shown):
                add(stream.way, index, result)
            progress(stream.way, len(shown))
    return Measurements(meters, stepped, passes, live)


def count_frames(streams: Sequence[Stream], num_frames: int, repeats: int, base_passes: bool = True) -> int:
    """Total number of frames that `measure_ways` reports."""
    counts = {"online": repeats, "offline": 1, "realtime": 1}
    own = sum(counts[stream.way.mode] for stream in streams)
    return num_frames * (own + repeats * len(_list_passes(streams, base_passes)))


class _Pass(NamedTuple):
    """A way over all frames, in one of the modes that can run it."""

    way: Way
    mode: Mode


def _list_passes(streams: Sequence[Stream], base_passes: bool) -> list[_Pass]:
    """The passes to time: offline, and for comparison the base network and online.

    Offline computes several frames at once where that is faster. So may the base network: it is timed in both modes.
    """
    ways = [stream.way for stream in streams]
    chosen: dict[_Pass, None] = {}
    for way in ways:
        if way.mode == "offline":
            beside = (BASE, way.reference, replace(way.reference, kind="online")) if base_passes else ()
            for each in (*beside, way):
                if each in ways:
                    chosen[_Pass(each, each.mode)] = None
                    if each.kind == "base":
                        chosen[_Pass(each, "offline")] = None
    return list(chosen)


def _measure_passes(
    streams: Sequence[Stream],
    clip: Clip,
    repeats: int,
    on_result: Callable[[Way, int, FrameResult], None],
    progress: Callable[[Way, int], None],
    base_passes: bool,
) -> dict[Way, Times]:
    """Time whole passes; where a way has two, the faster counts. Each offline stream first runs once untimed."""
    opened = {stream.way: stream for stream in streams}
    passes, videos = _list_passes(streams, base_passes), split_videos(clip)

    def run(each: _Pass) -> Iterator[FrameResult]:
        segmenter = opened[each.way].segmenter
        return chain.from_iterable(segmenter.stream(video, mode=each.mode) for video in videos)

    for stream in streams:
        if stream.way.mode == "offline":
            for index, result in enumerate(run(_Pass(stream.way, "offline"))):
                on_result(stream.way, index, result)
                progress(stream.way, 1)
    runs: dict[Hashable, Callable[[], Iterator[FrameResult]]] = {each: partial(run, each) for each in passes}
    times = time_passes(runs, repeats, lambda each: progress(each.way, len(clip.frames)))  # type: ignore[attr-defined]
    slowest_first = sorted(passes, key=lambda each: float(np.median(times[each].fps())))
    fastest = {each.way: times[each] for each in slowest_first}
    return {each.way: fastest[each.way] for each in passes}
