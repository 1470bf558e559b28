"""What `benchmark` measured: speed, cost and accuracy of every method over the same frames."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from stmg.errors import require
from stmg.evaluation.method import BASE, Method
from stmg.evaluation.results.common import FrameCost, Result, Size
from stmg.streaming.schedulers import Level


@dataclass(frozen=True)
class Latency:
    """Milliseconds from a frame handed in to its labels."""

    p50_ms: float
    p95_ms: float
    max_ms: float


@dataclass(frozen=True)
class LevelLatency:
    """Latency of the frames of one level, and their share."""

    level: Level
    share: float
    latency: Latency


@dataclass(frozen=True, kw_only=True)
class Timing:
    """Speed over a stream, and beside the base network; ratios are of the same repeat, ranges over the repeats."""

    fps: float
    fps_range: tuple[float, float]
    gain: float
    """FPS relative to the base network's."""
    gain_range: tuple[float, float]
    expected_gain: float | None
    """The base network's MACs relative to those executed."""
    gain_reached: float | None
    """The gain relative to the expected one."""
    carry_overhead: float | None
    """A median carried frame relative to the base network's: what every frame takes beside the network."""
    slowest_frame: float | None
    """The slowest frame, by the fastest of its repeats, relative to a median frame of the base network; None where
    frames wait for later ones."""
    end_to_end_fps: float
    """With reading and drawing frames."""
    latency: Latency
    levels: tuple[LevelLatency, ...]
    cost: FrameCost | None

    def __post_init__(self) -> None:
        require(self.fps > 0 and self.gain > 0, "fps and gain are above 0", (self.fps, self.gain))


@dataclass(frozen=True, kw_only=True)
class BenchmarkRow:
    """One method over the frames of a benchmark."""

    method: Method
    miou: float | None
    """None without labels, or where the model is untrained or of other classes."""
    timing: Timing
    model_gain: float | None = None
    """Of an export: FPS relative to the model's own base network, in the same repeat."""
    model_gain_range: tuple[float, float] | None = None
    peak_memory: int | None = None
    """Bytes of a process of its own, Python and its libraries included; None where it was not measured."""
    latencies: tuple[float, ...] = ()
    """Milliseconds of each frame of the first repeat, of the model's base and stream."""
    levels: tuple[Level, ...] = ()
    """Of the same frames."""


@dataclass(frozen=True)
class PassRow:
    """Whole streams by the clock on the wall; ratios are of the same repeat, ranges over the repeats."""

    method: Method
    fps: float
    fps_range: tuple[float, float]
    gain: float
    """Relative to the base network on the same runtime."""
    gain_range: tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class RealtimeRow:
    """A live stream: frames come at their own times, and the network runs in the background."""

    method: Method
    rate: float
    """Frames per second of the source."""
    miou: float | None
    """Of what was on the screen at each frame: a dropped one shows the labels of the frame before."""
    latency: Latency
    """Of every answered frame but the first of a video, which waits for the network."""
    mean_age: float
    """Frames since the one that the labels come from."""
    p95_age: float
    network_runs: int
    frames: int
    """That came."""
    dropped: int
    """That were not answered, as a newer one had come."""
    stale: int
    """Answered with the labels of another scene."""


@dataclass(frozen=True, kw_only=True)
class SizeBenchmark:
    """Every method at one frame size."""

    size: Size
    frames: int
    frames_per_turn: int
    """How many frames a method gets before the next one has its turn."""
    settings: str
    runtime: str
    read_ms: float | None
    """Reading a frame; None if frames are rendered."""
    draw_ms: float
    """Drawing labels over a frame."""
    rows: tuple[BenchmarkRow, ...]
    passes: tuple[PassRow, ...] = ()
    """The base network and the modes timed over whole streams by the clock on the wall, one pass after the other."""
    realtime: tuple[RealtimeRow, ...] = ()

    def __post_init__(self) -> None:
        require(any(row.method == BASE for row in self.rows), "rows has one of the base network", len(self.rows))

    def row(self, method: Method) -> BenchmarkRow:
        """The row of a method; the base network always has one."""
        return next(row for row in self.rows if row.method == method)


@dataclass(frozen=True, kw_only=True)
class BenchmarkResult(Result):
    """Speed, cost and accuracy beside baselines, in turns over the same frames."""

    kind: ClassVar[str] = "benchmark"
    source: str
    repeats: int
    warning: str
    """Of what disturbed the times; empty if nothing did."""
    sizes: tuple[SizeBenchmark, ...]
