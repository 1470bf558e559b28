"""Live: a stream whose frames come at their own times, with the network in the background."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np

from stmg.evaluation.rows import Live
from stmg.evaluation.speed import WARM_UP, summarize_latency
from stmg.segmenter import VideoSegmenter
from stmg.streaming.cost import Cost
from stmg.streaming.realtime import lower_thread_priority
from stmg.streaming.result import FrameResult
from stmg.video.frames import Frame
from stmg.video.pace import pace
from stmg.video.sources import VideoSource

Value = TypeVar("Value")


class LiveRun(NamedTuple):
    """What was measured of a live stream."""

    live: Live
    latencies: tuple[float, ...]
    """Milliseconds of every answered frame but the first of a video, which waits for the network."""


def run_live(
    segmenter: VideoSegmenter,
    videos: Sequence[Sequence[Frame]],
    rate: float,
    on_frame: Callable[[FrameResult], None] | None = None,
) -> LiveRun:
    """Play videos at a rate to a segmenter in realtime, one after the other, each from a fresh start.

    on_frame: called for every frame in order with what was on the screen, which for a dropped one is the result before
        it; afterwards, so that whatever it does takes no time from the stream.
    """
    warming = segmenter.another(max_change=None)  # which online may not have: its scheduler is another one
    for frame in videos[0][:WARM_UP]:
        warming.step(frame)
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
    latencies = tuple(result.latency_ms for result in later or every)
    live = Live(
        rate=round(rate, 3),
        latency=summarize_latency(latencies),
        mean_age=round(float(np.mean(ages)), 3),
        p95_age=round(float(np.percentile(ages, 95)), 3),
        network_runs=runs,
        dropped=dropped,
        stale=sum(result.stale for result in every),
    )
    return LiveRun(live, latencies)


def _fill_dropped(answered: Sequence[FrameResult], number: int) -> list[FrameResult]:
    """What was on the screen at each frame of a video; a dropped one costs nothing."""
    own = {result.index: result for result in answered}
    shown: list[FrameResult] = []
    for index in range(number):
        shown.append(own[index] if index in own else replace(shown[-1], count_cost=Cost, computed=False))
    return shown


def _ages(answered: Sequence[FrameResult], number: int) -> list[int]:
    """Of the labels that are on the screen at each frame of a video, dropped ones too."""
    computed = [answered[at - result.anchor_distance].index for at, result in enumerate(answered)]
    shown = np.searchsorted([result.index for result in answered], range(number), side="right") - 1
    return [index - computed[at] for index, at in enumerate(shown)]


class CountingExecutor(ThreadPoolExecutor):
    """One worker, as realtime has it by itself, and how often it was given something to do."""

    def __init__(self) -> None:
        super().__init__(1, thread_name_prefix="stmg-network", initializer=lower_thread_priority)
        self.num_runs = 0

    def submit(self, function: Callable[..., Value], /, *args: Any, **kwargs: Any) -> Future[Value]:
        self.num_runs += 1
        return super().submit(function, *args, **kwargs)


class _Playback:
    """As much of a video source as pacing needs: frames in memory, numbered, at a rate."""

    name = "frames in memory"
    size = None  # they have the size to work at already

    def __init__(self, frames: Sequence[Frame], rate: float) -> None:
        self.fps = rate
        self._frames = (Frame(frame.image, index, index / rate) for index, frame in enumerate(frames))

    def __iter__(self) -> Iterator[Frame]:
        return self._frames

    def __next__(self) -> Frame:
        return next(self._frames)
