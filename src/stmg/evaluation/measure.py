"""Measuring: ways run over the same frames, side by side for accuracy and cost, in turns for speed."""

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
from stmg.evaluation.clips import Clip, read_frames, split_videos
from stmg.evaluation.live import LiveRun, run_live
from stmg.evaluation.meter import Answer, Meter
from stmg.evaluation.rows import Row
from stmg.evaluation.speed import Times, time_interleaved, time_passes
from stmg.evaluation.streams import Stepper, Stream, play
from stmg.evaluation.way import BASE, ONLINE, Size, Way
from stmg.streaming.cost import Cost
from stmg.streaming.result import FrameResult
from stmg.streaming.runtime import Runtime
from stmg.streaming.schedulers import Level
from stmg.streaming.settings import Mode
from stmg.video.frames import Frame
from stmg.video.labels import Labels


class Moment(NamedTuple):
    """A frame, and what each stream gave for it."""

    frame: Frame
    truth: Labels | None
    answers: tuple[Answer, ...]


def run_beside(streams: Sequence[Stream], video: Video, size: Size, limit: int | None = None) -> Iterator[Moment]:
    """Streams over a video side by side, read once; at most one of them is offline. The first is the base network.

    A frame comes when every stream has answered it, so that all count the same.
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
    """Accuracy and cost of one segmenter, or baseline, run over a split frame by frame."""
    meter, stream = Meter(dataset.num_classes), Stream(ONLINE, stepper)
    for video in dataset.videos(split):
        for moment in run_beside([stream], video, size):
            meter.add(moment.answers[0].result, moment.truth)
    return meter


def base_cost(runtime: Runtime, size: Size) -> Cost | None:
    """What a frame of the whole network executes."""
    return runtime.cost(size, Level.KEY, (), 1.0, masked=False)


@dataclass(frozen=True)
class Speeds:
    """What was measured of ways over a clip."""

    stepped: dict[Way, Times]
    """Of what goes frame by frame."""
    passes: dict[Way, Times]
    """Of offline, and of what is compared with it, over whole passes by the clock on the wall."""
    live: dict[Way, LiveRun]

    def of(self, way: Way) -> Times:
        return self.passes[way] if way.mode == "offline" else self.stepped[way]

    def timed(self, row: Row, extra_ms: float = 0.0) -> Row:
        """A row with the speed of its way, relative to the base network on its runtime; `extra_ms` is added a frame."""
        if row.way in self.live:
            return replace(row, live=self.live[row.way].live)
        base = self.passes.get(row.way.reference) if row.way.mode == "offline" else None
        return replace(row, timing=self.of(row.way).relative_to(base or self.stepped[row.way.reference], extra_ms))

    def timed_pass(self, way: Way) -> Row:
        """The speed of a way over whole passes."""
        return Row(way=way, timing=self.passes[way].relative_to(self.passes[way.reference]))


def measure_speed(
    streams: Sequence[Stream],
    clip: Clip,
    repeats: int,
    on_result: Callable[[Way, int, FrameResult], None],
    on_progress: Callable[[Way, int], None] | None = None,
    *,
    base_passes: bool = True,
) -> Speeds:
    """Every way over a clip, `repeats` times: steps in turns, offline in whole passes, realtime at the clip's rate.

    on_result: called once with each way's result of each frame, by its index in the clip.
    on_progress: called with a way and how many more of its frames are done.
    base_passes: time the base network and online over whole passes, too, for offline to be compared with.
    """
    progress = on_progress or (lambda way, frames: None)

    def step(way: Way, repeat: int, index: int, result: FrameResult) -> None:
        if repeat == 0:
            on_result(way, index, result)
        progress(way, 1)

    by_mode = {mode: [stream for stream in streams if stream.way.mode == mode] for mode in ("online", "offline")}
    stepped = time_interleaved(by_mode["online"], clip.frames, repeats, step, clip.starts)
    passes = _measure_passes(streams, clip, repeats, on_result, progress, base_passes)
    live: dict[Way, LiveRun] = {}
    for stream in streams:
        if stream.way.mode == "realtime":
            assert clip.rate is not None
            shown: list[FrameResult] = []
            live[stream.way] = run_live(stream.segmenter, split_videos(clip), clip.rate, shown.append)
            for index, result in enumerate(shown):
                on_result(stream.way, index, result)
            progress(stream.way, len(shown))
    return Speeds(stepped, passes, live)


def count_frames(streams: Sequence[Stream], num_frames: int, repeats: int, base_passes: bool = True) -> int:
    """How many frames `measure_speed` reports as done in the end."""
    counts = {"online": repeats, "offline": 1, "realtime": 1}
    own = sum(counts[stream.way.mode] for stream in streams)
    return num_frames * (own + repeats * len(_list_passes(streams, base_passes)))


class _Pass(NamedTuple):
    """A way over all frames, in one of the modes it can be run in."""

    way: Way
    mode: Mode


def _list_passes(streams: Sequence[Stream], base_passes: bool) -> list[_Pass]:
    """What is timed over whole passes: offline, and for comparison the base network and online beside it.

    Offline computes several frames at once where that is faster. So may the base network: it runs both ways.
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
    """Whole passes, of a way in several modes the fastest one. Each offline stream first runs once, uncounted."""
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
