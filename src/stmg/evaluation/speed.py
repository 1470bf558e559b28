"""Times of ways that take turns over the same frames, so that all meet the same machine, and figures from them."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from stmg.evaluation.meter import mean_cost
from stmg.evaluation.rows import Latency, LevelLatency, Timing
from stmg.evaluation.streams import Stepper, Stream
from stmg.evaluation.way import Way
from stmg.streaming.cost import Cost
from stmg.streaming.result import FrameResult
from stmg.streaming.schedulers import Level

WARM_UP = 8  # frames of each way before times count
MIN_CALLS = 5  # of a function timed alone
TURN = 25  # frames of a way before it is the next one's turn

Name = TypeVar("Name", bound=Hashable)


@dataclass
class Times:
    """Milliseconds of each frame of a way, for each repeat."""

    repeats: list[list[float]] = field(default_factory=list)
    levels: list[Level] = field(default_factory=list)
    """Levels of the frames of one repeat. All repeats have the same."""
    costs: list[Cost | None] = field(default_factory=list)
    walls: list[float] = field(default_factory=list)
    """Wall time of each repeat in milliseconds, of a way that works on several frames at once; else empty."""

    @property
    def all(self) -> list[float]:
        return [ms for repeat in self.repeats for ms in repeat]

    @property
    def undisturbed(self) -> list[float]:
        """The fastest repeat of each frame: other work of the machine seldom hits the same frame in each."""
        return [min(times) for times in zip(*self.repeats, strict=True)]

    def fps(self, extra_ms: float = 0.0) -> list[float]:
        """FPS over the whole stream, for each repeat. `extra_ms` is added to each frame."""
        sums = self.walls or [sum(repeat) for repeat in self.repeats]
        return [1000 / (each / len(repeat) + extra_ms) for each, repeat in zip(sums, self.repeats, strict=True)]

    def ratios(self, base: Times) -> list[float]:
        """FPS relative to another way's in the same repeat."""
        return [mine / other for mine, other in zip(self.fps(), base.fps(), strict=True)]

    def of_level(self, level: Level) -> list[float]:
        return [ms for repeat in self.repeats for ms, at in zip(repeat, self.levels, strict=True) if at is level]

    def cost(self) -> Cost | None:
        """Cost of a mean frame; None if it cannot be counted."""
        return mean_cost(self.costs)

    def relative_to(self, base: Times, extra_ms: float = 0.0) -> Timing:
        """Timing relative to the base network. Ratios are within a repeat."""
        ratios = self.ratios(base)
        gain = float(np.median(ratios))
        cost, whole = self.cost(), base.cost()
        expected = whole.macs / cost.macs if cost and whole and cost.macs else None
        levels = {level: self.of_level(level) for level in Level if level in self.levels}
        carried = None if self.walls else levels.get(Level.CARRY)
        slowest = None if self.walls else max(self.undisturbed) / float(np.median(base.undisturbed))
        return Timing(
            fps=round(float(np.median(self.fps())), 3),
            fps_range=value_range(self.fps()),
            gain=round(gain, 4),
            gain_range=value_range(ratios),
            expected_gain=None if expected is None else round(expected, 4),
            gain_reached=None if expected is None else round(gain / expected, 4),
            # A carried frame runs no network, so its time is the overhead of every frame.
            carry_overhead=round(float(np.median(carried)) / float(np.median(base.all)), 4) if carried else None,
            slowest_frame=None if slowest is None else round(slowest, 4),
            end_to_end_fps=round(float(np.median(self.fps(extra_ms))), 3),
            latency=Latency.of(self.all),
            levels=tuple(
                LevelLatency(level, round(100 * self.levels.count(level) / len(self.levels), 2), Latency.of(times))
                for level, times in levels.items()
            ),
        )


def time_interleaved(
    streams: Sequence[Stream],
    frames: Sequence[Any],
    repeats: int,
    on_frame: Callable[[Way, int, int, FrameResult], None] | None = None,
    starts: Collection[int] = (0,),
) -> dict[Way, Times]:
    """Step each stream over all frames, `repeats` times, in turns.

    on_frame: called with the way, repeat, index and result of each frame.
    starts: the frames at which a video begins.
    """
    steppers = {stream.way: stream.stepper for stream in streams}
    for stepper in steppers.values():
        warm_up(stepper, frames)
    times = {way: Times() for way in steppers}
    order = deque(steppers)
    for repeat in range(repeats):
        for each in times.values():
            each.repeats.append([])
        for start in range(0, len(frames), TURN):
            for way in order:
                for index, frame in enumerate(frames[start : start + TURN], start):
                    if index in starts:
                        steppers[way].reset()
                    result = steppers[way].step(frame)
                    times[way].repeats[-1].append(result.latency_ms)
                    if repeat == 0:
                        times[way].levels.append(result.level)
                        times[way].costs.append(result.cost)
                    if on_frame is not None:
                        on_frame(way, repeat, index, result)
            order.rotate()  # give every way a chance to come first
    return times


def time_passes(
    streams: Mapping[Name, Callable[[], Iterable[FrameResult]]],
    repeats: int,
    on_pass: Callable[[Name], None],
) -> dict[Name, Times]:
    """Time whole streams one after the other, `repeats` times, by the wall clock. The order rotates.

    For streams that work on several frames at once and cannot be stepped. `on_pass` is called with the name after each
    pass.
    """
    times = {name: Times() for name in streams}
    order = deque(streams)
    for _ in range(repeats):
        for name in order:
            started = time.perf_counter()
            seen = [(result.latency_ms, result.level, result.cost) for result in streams[name]()]
            times[name].walls.append(1000 * (time.perf_counter() - started))
            times[name].repeats.append([latency for latency, _, _ in seen])
            times[name].levels = [level for _, level, _ in seen]
            times[name].costs = [cost for _, _, cost in seen]
            on_pass(name)
        order.rotate()
    return times


def warm_up(stepper: Stepper, frames: Sequence[Any]) -> None:
    """Step over a few frames before times count."""
    stepper.reset()
    for frame in frames[:WARM_UP]:
        stepper.step(frame)


def mean_ms(run: Callable[[], Any], seconds: float = 1.0) -> float:
    """Mean milliseconds of a call, repeated for so many seconds."""
    run()
    durations: list[float] = []
    while len(durations) < MIN_CALLS or sum(durations) < seconds:
        started = time.perf_counter()
        run()
        durations.append(time.perf_counter() - started)
    return 1000 * float(np.mean(durations))


def median_ratio(ratios: Sequence[float]) -> float:
    return round(float(np.median(ratios)), 4)


def value_range(values: Sequence[float]) -> tuple[float, float]:
    return round(min(values), 4), round(max(values), 4)
