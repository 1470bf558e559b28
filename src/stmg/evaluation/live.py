"""Measuring realtime: frames come at their own times, or the network takes a fixed number of frame intervals."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np

from stmg.evaluation.rows import Latency, Live
from stmg.evaluation.speed import warm_up
from stmg.segmenter import VideoSegmenter
from stmg.streaming.cost import Cost
from stmg.streaming.result import FrameResult
from stmg.streaming.threads import lower_thread_priority
from stmg.video.frames import Frame
from stmg.video.labels import Labels
from stmg.video.pace import pace
from stmg.video.sources import VideoSource

Value = TypeVar("Value")


def run_live(
    segmenter: VideoSegmenter,
    videos: Sequence[Sequence[Frame]],
    rate: float,
    on_frame: Callable[[FrameResult], None] | None = None,
) -> Live:
    """Play videos to a segmenter in realtime at a given rate, one after the other, each from a fresh start.

    on_frame: called with what was on the screen at each frame, in order: at a dropped frame, the result before it. It
        is called after the stream has ended, so that it takes no time from it.
    """
    # Warmed up online, whose scheduler may be one that max_change cannot steer.
    warm_up(segmenter.another(max_change=None), videos[0])
    answered: list[list[FrameResult]] = []
    runs = dropped = 0
    for video in videos:
        source = pace(cast(VideoSource, _Playback(video, rate)))
        answered.append([])
        with CountingExecutor() as executor:
            answered[-1] += segmenter.stream(source, mode="realtime", executor=executor)
        runs, dropped = runs + executor.num_runs, dropped + source.dropped
    if on_frame is not None:
        for video, results in zip(videos, answered, strict=True):
            for result in _fill_dropped(results, len(video)):
                on_frame(result)
    every = [result for results in answered for result in results]
    later = [result for results in answered for result in results[1:]]
    ages = [age for video, results in zip(videos, answered, strict=True) for age in _ages(results, len(video))]
    return Live(
        rate=round(rate, 3),
        latency=Latency.of([result.latency_ms for result in later or every]),
        mean_age=round(float(np.mean(ages)), 3),
        p95_age=round(float(np.percentile(ages, 95)), 3),
        network_runs=runs,
        dropped=dropped,
        stale=sum(result.stale for result in every),
    )


def _fill_dropped(answered: Sequence[FrameResult], number: int) -> list[FrameResult]:
    """The result on the screen at each frame of a video. A dropped frame costs nothing."""
    own = {result.index: result for result in answered}
    shown: list[FrameResult] = []
    for index in range(number):
        shown.append(own[index] if index in own else replace(shown[-1], count_cost=Cost, computed=False))
    return shown


def _ages(answered: Sequence[FrameResult], number: int) -> list[int]:
    """Age in frames of the labels on the screen at each frame of a video, dropped frames included."""
    computed = [answered[at - result.anchor_distance].index for at, result in enumerate(answered)]
    shown = np.searchsorted([result.index for result in answered], range(number), side="right") - 1
    return [index - computed[at] for index, at in enumerate(shown)]


class CountingExecutor(ThreadPoolExecutor):
    """The one worker that realtime makes for itself, with a count of its runs."""

    def __init__(self) -> None:
        super().__init__(1, thread_name_prefix="stmg-network", initializer=lower_thread_priority)
        self.num_runs = 0

    def submit(self, function: Callable[..., Value], /, *args: Any, **kwargs: Any) -> Future[Value]:
        self.num_runs += 1
        return super().submit(function, *args, **kwargs)


class _Playback:
    """Frames in memory as a video source, numbered, at a rate. Has only what pacing needs."""

    name = "frames in memory"
    size = None  # the frames are already resized

    def __init__(self, frames: Sequence[Frame], rate: float) -> None:
        self.fps = rate
        self._frames = (Frame(frame.image, index, index / rate) for index, frame in enumerate(frames))

    def __iter__(self) -> Iterator[Frame]:
        return self._frames

    def __next__(self) -> Frame:
        return next(self._frames)


class DelayedExecutor(Executor):
    """Finishes each run a fixed number of frame intervals after it started, however fast the machine is.

    Call `tick` once per interval. A run that is waited for is finished at once: the first frame of a stream has nothing
    else to show.

        executor = DelayedExecutor(intervals=2)
        stream = RealtimeStream(runtime, settings, executor)
        for frame in frames:
            executor.tick()
            result = stream.step(frame)
    """

    def __init__(self, intervals: int) -> None:
        assert intervals > 0, intervals
        self.intervals = intervals
        self.num_runs = 0
        """Runs started so far."""
        self._waiting: list[tuple[int, _Run[Any]]] = []
        self._now = 0

    def submit(self, function: Callable[..., Value], /, *args: Any, **kwargs: Any) -> Future[Value]:
        run: _Run[Value] = _Run(lambda: function(*args, **kwargs))
        self._waiting.append((self._now + self.intervals, run))
        self.num_runs += 1
        return run

    def tick(self) -> None:
        """Advance by one frame interval and finish the runs that are due."""
        self._now += 1
        for due, run in self._waiting:
            if due <= self._now:
                run.finish()
        self._waiting = [(due, run) for due, run in self._waiting if due > self._now]


class _Run(Future[Value]):
    """A call that is made when it is due, or when its result is waited for."""

    def __init__(self, call: Callable[[], Value]) -> None:
        super().__init__()
        self._call = call

    def finish(self) -> None:
        if not self.done():
            try:
                self.set_result(self._call())
            except Exception as error:  # raised by `result`
                self.set_exception(error)

    def result(self, timeout: float | None = None) -> Value:
        self.finish()
        return super().result(timeout)


class Shown(NamedTuple):
    """The labels shown on a frame."""

    labels: Labels
    age: int
    """Frames since the one that they were computed for."""
    started: bool
    """True if the network started on this frame."""


class LastFinished:
    """Shows the newest labels that the network has finished, unwarped. The network never pauses.

    The first frame waits for the network, as in realtime.
    """

    def __init__(self, intervals: int) -> None:
        self.intervals = intervals
        self._number = 0
        self._shown: tuple[int, Labels] | None = None
        self._running: tuple[int, Labels] | None = None

    def show(self, labels: Labels) -> Shown:
        """The labels to show on a frame; `labels` are the network's own for it, which it finishes `intervals` later."""
        now = (self._number, labels)
        if self._running is not None and self._number - self._running[0] >= self.intervals:
            self._shown, self._running = self._running, None
        started = self._running is None
        if self._shown is None:
            self._shown = now
        elif started:
            self._running = now
        self._number += 1
        return Shown(self._shown[1], now[0] - self._shown[0], started)
