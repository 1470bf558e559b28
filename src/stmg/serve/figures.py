"""Figures of a live stream: rates, latency, anchors, audits, and a point per frame for the timeline."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from stmg.outputs.records import measure_areas
from stmg.streaming.result import FrameResult
from stmg.streaming.statistics import Statistics

SECONDS = 5.0  # window in which rates are measured
FRAMES = 300  # window in which latency is measured
HISTORY = 450  # number of points kept for the timeline
TREND = 40  # number of audits kept
AREAS_EVERY = 1.0  # seconds between two measurements of areas


class Point(NamedTuple):
    """A frame on the timeline."""

    number: int
    """Number of the result in the stream, from 1."""
    seconds: float
    """Time of the result since the stream was added."""
    level: str
    anchored: bool
    """True on the first frame that shows a new result of the network."""
    distortion: float | None
    drift: float | None
    """Accumulated distortion since the frame that the labels come from."""
    latency_ms: float
    audit: float | None
    """Share of the pixels at which the network differed from the shown labels."""


@dataclass(frozen=True)
class LiveFigures:
    """The figures of a stream at one moment."""

    source_fps: float = 0.0
    """FPS that the source delivers."""
    process_fps: float = 0.0
    """Results per second."""
    skipped_fps: float = 0.0
    """Frames per second that were dropped for newer ones."""
    network_fps: float = 0.0
    """Network runs per second."""
    latency_p50_ms: float | None = None
    latency_p95_ms: float | None = None
    network_ms: float | None = None
    """Median duration of a network run."""
    anchor_frames: int | None = None
    """Frames between the shown one and the one that its labels come from."""
    anchor_ms: float | None = None
    """Age of the computed frame that the labels come from, by the timestamps of the frames."""
    frame_index: int | None = None
    frame_size: tuple[int, int] | None = None
    """(height, width)."""
    silent_seconds: float | None = None
    """Time since the last result."""
    audit: float | None = None
    """Share of the pixels that the last audit found changed."""
    audit_mean: float | None = None
    """Mean of the last audits."""
    audit_trend: tuple[float, ...] = ()
    """The last audits, oldest first."""
    areas: dict[str, float] = field(default_factory=dict)
    """Share of the pixels of each class."""
    frames: dict[str, int] = field(default_factory=dict)
    """Number of results by level, since the start."""
    dropped: int = 0
    network_runs: int = 0
    reconnects: int = 0
    audits: int = 0


class LiveStatistics(Statistics):
    """Statistics of a running stream and of its last seconds. Written by its threads, read by any thread."""

    def __init__(self, class_names: Sequence[str] = (), clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._class_names, self._clock, self._lock, self._begun = class_names, clock, threading.Lock(), clock()
        self._arrived, self._results, self._dropped_rate, self._runs = (_Rate(clock) for _ in range(4))
        self._latencies: deque[float] = deque(maxlen=FRAMES)
        self._network_ms: deque[float] = deque(maxlen=FRAMES // 10)
        self._points: deque[Point] = deque(maxlen=HISTORY)
        self._steps: deque[float] = deque(maxlen=FRAMES)
        self._times: deque[float | None] = deque(maxlen=FRAMES)
        self._trend: deque[float] = deque(maxlen=TREND)
        self._reconnects = 0
        self._last: FrameResult | None = None
        self._last_at = self._areas_at = -math.inf
        self._areas: dict[str, float] = {}

    def arrive(self, newly_dropped: int) -> None:
        """Count a frame from the source, and the frames dropped before it."""
        with self._lock:
            self._arrived.add(1 + newly_dropped)
            self._dropped_rate.add(newly_dropped)
            self.dropped += newly_dropped

    def time_network(self, milliseconds: float) -> None:
        """Record the duration of a network run."""
        with self._lock:
            self._network_ms.append(milliseconds)

    def reconnect(self) -> None:
        with self._lock:
            self._reconnects += 1

    def add(self, result: FrameResult) -> None:
        now = self._clock()
        areas = measure_areas(result, self._class_names) if now - self._areas_at >= AREAS_EVERY else None
        with self._lock:
            super().add(result)
            is_computed = result.computed and not result.stale
            self._runs.add(int(is_computed))
            if is_computed and self.mode == "online":
                self._network_ms.append(result.latency_ms)
            self._results.add(1)
            self._latencies.append(result.latency_ms)
            self._steps.append(0.0 if math.isnan(result.distortion) else result.distortion)
            self._times.append(result.time)
            if result.audit is not None:
                self._trend.append(round(result.audit.changed, 5))
            self._points.append(self._make_point(result, now, is_computed))
            self._last, self._last_at = result, now
            if areas is not None:
                self._areas, self._areas_at = areas, now

    def _make_point(self, result: FrameResult, now: float, is_computed: bool) -> Point:
        drift = result.drift
        if self.mode == "realtime":  # its results hold only the change of each step
            drift = sum(list(self._steps)[-result.anchor_distance :]) if result.anchor_distance else 0.0
        return Point(
            self.num_frames,
            round(now - self._begun, 3),
            str(result.level),
            is_computed,
            None if math.isnan(result.distortion) else round(result.distortion, 4),
            None if math.isnan(drift) else round(drift, 4),
            round(result.latency_ms, 2),
            None if result.audit is None else round(result.audit.changed, 4),
        )

    def points(self, after: int = 0) -> list[Point]:
        """The points of the timeline after this number."""
        with self._lock:
            return [point for point in self._points if point.number > after]

    def histogram(self, bounds: Sequence[float]) -> tuple[list[int], float]:
        """Number of results within each latency bound, and of all, and the sum of latencies. In seconds."""
        with self._lock:
            counts = [
                sum(count for tenths, count in self.latencies.items() if tenths <= 10_000 * bound) for bound in bounds
            ]
            return [*counts, self.num_frames], sum(self.milliseconds.values()) / 1000

    def read(self) -> LiveFigures:
        """The current figures."""
        with self._lock:
            last, ordered = self._last, sorted(self._latencies)
            trend, distance = tuple(self._trend), None if self._last is None else self._last.anchor_distance
            return LiveFigures(
                source_fps=self._arrived.value(),
                process_fps=self._results.value(),
                skipped_fps=self._dropped_rate.value(),
                network_fps=self._runs.value(),
                latency_p50_ms=_quantile(ordered, 0.5),
                latency_p95_ms=_quantile(ordered, 0.95),
                network_ms=_quantile(sorted(self._network_ms), 0.5),
                anchor_frames=distance,
                anchor_ms=self._anchor_age(distance),
                frame_index=None if last is None else last.index,
                frame_size=None if last is None else (last.image.shape[0], last.image.shape[1]),
                silent_seconds=None if last is None else round(self._clock() - self._last_at, 2),
                audit=trend[-1] if trend else None,
                audit_mean=round(sum(trend) / len(trend), 5) if trend else None,
                audit_trend=trend,
                areas=dict(self._areas),
                frames=dict(self.frames),
                dropped=self.dropped,
                network_runs=self.network_runs,
                reconnects=self._reconnects,
                audits=self.audits,
            )

    def _anchor_age(self, distance: int | None) -> float | None:
        if distance is None or not 0 <= distance < len(self._times):
            return None
        now, then = self._times[-1], self._times[-1 - distance]
        return None if now is None or then is None else round(1000 * (now - then), 1)


class TimedExecutor(Executor):
    """Passes the network runs of one stream to another executor, and times them."""

    def __init__(self, executor: Executor, statistics: LiveStatistics) -> None:
        self._executor, self._statistics = executor, statistics

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        def run() -> Any:
            begun = time.perf_counter()
            value = function(*args, **kwargs)
            self._statistics.time_network(1000 * (time.perf_counter() - begun))
            return value

        return self._executor.submit(run)


class _Rate:
    """Events per second over the last seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock, self._begun = clock, clock()
        self._events: deque[tuple[float, int]] = deque()

    def add(self, count: int) -> None:
        now = self._clock()
        if count:
            if not self._events and now - self._begun > SECONDS:
                self._begun = now - 1  # after a silence, measure the rate of the new events only
            self._events.append((now, count))
        self._forget(now)

    def value(self) -> float:
        now = self._clock()
        self._forget(now)
        span = min(SECONDS, max(1.0, now - self._begun))
        return round(sum(count for _, count in self._events) / span, 2)

    def _forget(self, now: float) -> None:
        while self._events and self._events[0][0] < now - SECONDS:
            self._events.popleft()


def _quantile(ordered: list[float], share: float) -> float | None:
    return round(ordered[min(len(ordered) - 1, int(share * len(ordered)))], 2) if ordered else None
