"""Speed: contenders in turn over the same frames, so that all meet the same machine, with the spread over repeats."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from stmg.evaluation.stream import Stepper
from stmg.scheduler import Level
from stmg.state import Cost, FrameResult

WARM_UP = 8  # frames of each contender that do not count
TURN = 25  # frames that a contender gets before the next one has its turn


@dataclass
class Times:
    """Milliseconds of a contender, frame by frame, of each repeat."""

    repeats: list[list[float]] = field(default_factory=list)
    levels: list[Level] = field(default_factory=list)
    """Of the frames of one repeat; each repeat decides alike."""
    costs: list[Cost | None] = field(default_factory=list)

    @property
    def all(self) -> list[float]:
        return [ms for repeat in self.repeats for ms in repeat]

    @property
    def undisturbed(self) -> list[float]:
        """Of each frame the fastest repeat: what the machine does besides meets a frame once, not every time."""
        return [min(times) for times in zip(*self.repeats, strict=True)]

    def fps(self, extra_ms: float = 0.0) -> list[float]:
        """Frames a second over the whole stream, of each repeat; `extra_ms` is added to each frame."""
        return [1000 / (float(np.mean(repeat)) + extra_ms) for repeat in self.repeats]

    def of_level(self, level: Level) -> list[float]:
        return [ms for repeat in self.repeats for ms, at in zip(repeat, self.levels, strict=True) if at is level]

    def cost(self) -> Cost | None:
        """Executed by a mean frame; None where it cannot be counted."""
        known = [cost for cost in self.costs if cost is not None]
        if len(known) < len(self.costs) or not known:
            return None
        return Cost(*(round(float(np.mean(values))) for values in zip(*known, strict=True)))

    def told(self, base: Times, extra_ms: float = 0.0) -> dict[str, Any]:
        """Figures beside those of the base network; ratios are of the same repeat."""
        ratios = [mine / other for mine, other in zip(self.fps(), base.fps(), strict=True)]
        cost, whole = self.cost(), base.cost()
        promised = whole.macs / cost.macs if cost and whole and cost.macs else None
        frame = float(np.median(base.all))
        levels = {level: self.of_level(level) for level in Level if level in self.levels}
        return {
            "fps": round(float(np.median(self.fps())), 3),
            "fps_spread": _spread(self.fps()),
            "gain": round(float(np.median(ratios)), 4),
            "gain_spread": _spread(ratios),
            "promised": None if promised is None else round(promised, 4),
            "kept_promise": None if promised is None else round(float(np.median(ratios)) / promised, 4),
            # A carried frame runs no network: what it takes is what every frame takes beside it.
            "overhead": round(float(np.median(levels[Level.CARRY])) / frame, 4) if Level.CARRY in levels else None,
            "slowest_against_base": round(max(self.undisturbed) / float(np.median(base.undisturbed)), 4),
            "fps_with_decoding_and_drawing": round(float(np.median(self.fps(extra_ms))), 3),
            **_latency(self.all),
            "levels": {
                str(level): {"share": round(100 * self.levels.count(level) / len(self.levels), 2), **_latency(times)}
                for level, times in levels.items()
            },
            "macs": None if cost is None else cost.macs,
            "macs_without_head": None if cost is None else cost.macs - cost.head_macs,
            "params": None if cost is None else cost.params,
        }


def race(
    contenders: dict[str, Stepper],
    frames: Sequence[Any],
    repeats: int,
    told: Callable[[str, int, int, FrameResult], None] | None = None,
    starts: Collection[int] = (0,),
) -> dict[str, Times]:
    """Each contender over all frames, `repeats` times, in turns; `told` hears who, which repeat and frame.

    `starts` are the frames at which a video begins.
    """
    for contender in contenders.values():
        warm_up(contender, frames)
    times = {name: Times() for name in contenders}
    order = deque(contenders)
    for repeat in range(repeats):
        for each in times.values():
            each.repeats.append([])
        for start in range(0, len(frames), TURN):
            for name in order:
                mine = times[name]
                for number, frame in enumerate(frames[start : start + TURN], start):
                    if number in starts:
                        contenders[name].reset()
                    result = contenders[name].step(frame)
                    mine.repeats[-1].append(result.latency_ms)
                    if repeat == 0:
                        mine.levels.append(result.level)
                        mine.costs.append(result.cost)
                    if told is not None:
                        told(name, repeat, number, result)
            order.rotate()  # nobody always comes first
    return times


def warm_up(contender: Stepper, frames: Sequence[Any]) -> None:
    """A few frames that do not count; all of them where an export has to compile the patterns that will come."""
    runtime = getattr(contender, "runtime", None)
    waits = hasattr(runtime, "waits")
    if waits:
        runtime.waits = True  # type: ignore[union-attr]
    contender.reset()
    for frame in frames if waits else frames[:WARM_UP]:
        contender.step(frame)
    if waits:
        runtime.waits = False  # type: ignore[union-attr]


def mean_ms(run: Callable[[], Any], least: int = 5, seconds: float = 1.0) -> float:
    """Mean milliseconds of a call."""
    run()
    taken: list[float] = []
    while len(taken) < least or sum(taken) < seconds:
        started = time.perf_counter()
        run()
        taken.append(time.perf_counter() - started)
    return 1000 * float(np.mean(taken))


def _latency(times: list[float]) -> dict[str, float]:
    middle, most = np.percentile(times, (50, 95))
    return {"p50_ms": round(float(middle), 3), "p95_ms": round(float(most), 3), "max_ms": round(max(times), 3)}


def _spread(values: list[float]) -> list[float]:
    return [round(min(values), 4), round(max(values), 4)]
