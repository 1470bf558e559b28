"""Results: the rows that `evaluate`, `benchmark`, `ablate` and `tune` give; JSON, tables and plots are views of them.

Accuracies and shares are in percent, times in milliseconds. None means that there was nothing to measure.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar

from stmg.errors import require
from stmg.evaluation.machine import Machine
from stmg.evaluation.rows import FrameRecord, Row
from stmg.evaluation.way import BASE, Size, Way
from stmg.streaming.schedulers import Level
from stmg.streaming.settings import SETTINGS, Mode


@dataclass(frozen=True, kw_only=True)
class Result:
    """Where a result comes from."""

    kind: ClassVar[str]
    command: str = ""
    """The command line; empty if the result was computed from Python."""
    machine: Machine
    model: str
    interrupted: bool = False
    """True if Ctrl-C ended the run early. The result has everything measured so far."""


@dataclass(frozen=True)
class Picture:
    """A picture drawn during the run, a PNG file beside the result."""

    file: str
    caption: str
    png: bytes = field(default=b"", repr=False)


@dataclass(frozen=True)
class PairScores:
    """The paper's protocol: each labeled frame given the frame before it as its key frame."""

    frames: int
    level: Level
    base_miou: float | None
    miou: float | None


@dataclass(frozen=True, kw_only=True)
class EvaluationResult(Result):
    """Streams beside the base network on every frame."""

    kind: ClassVar[str] = "evaluation"
    data: str
    split: str
    size: Size
    settings: str
    """Settings of the first stream, as text."""
    runtime: str
    """The runtime of the network, in words."""
    base: Row
    modes: tuple[Row, ...]
    """One row for each mode; for realtime, one for each number of intervals, with copied labels beside it."""
    truth_consistency: float | None
    """Temporal consistency of the true labels, to compare that of the streams with."""
    motion: dict[str, int]
    """Number of frames of the first stream with each kind of motion."""
    frames: tuple[FrameRecord, ...]
    """The frames of the first stream, up to `MAX_RECORDS`."""
    paper_protocol: PairScores | None = None
    pictures: tuple[Picture, ...] = ()

    def __post_init__(self) -> None:
        require(len(self.modes) > 0, "modes has at least one", len(self.modes))

    @property
    def stream(self) -> Row:
        """The first stream: online, unless another mode was chosen."""
        return self.modes[0]

    def mode(self, mode: Mode) -> Row:
        """The first stream of a mode."""
        return next(row for row in self.modes if row.way.mode == mode)


@dataclass(frozen=True, kw_only=True)
class SizeBenchmark:
    """Every way at one frame size."""

    size: Size
    frames: int
    frames_per_turn: int
    """Number of frames that a way gets before the next way has its turn."""
    settings: str
    runtime: str
    read_ms: float | None
    """Milliseconds to read a frame; None if frames are rendered."""
    draw_ms: float
    """Milliseconds to draw labels over a frame."""
    rows: tuple[Row, ...]
    passes: tuple[Row, ...] = ()
    """The base network and the modes, by wall time over whole passes."""
    realtime: tuple[Row, ...] = ()
    notes: tuple[str, ...] = ()
    """Measurements that failed, and why."""

    def __post_init__(self) -> None:
        require(any(row.way == BASE for row in self.rows), "rows has one of the base network", len(self.rows))

    def row(self, way: Way) -> Row:
        """The row of a way; the base network always has one."""
        return find_row(self.rows, way)


@dataclass(frozen=True, kw_only=True)
class BenchmarkResult(Result):
    """Speed, cost and accuracy beside baselines, in turns over the same frames."""

    kind: ClassVar[str] = "benchmark"
    source: str
    repeats: int
    warning: str
    """A warning if other processes disturbed the times; otherwise empty."""
    sizes: tuple[SizeBenchmark, ...]


@dataclass(frozen=True)
class AblationTable:
    """Settings that are compared with each other."""

    title: str
    rows: tuple[Row, ...]


@dataclass(frozen=True, kw_only=True)
class AblationResult(Result):
    """The worth of each part."""

    kind: ClassVar[str] = "ablation"
    data: str
    split: str
    size: Size
    settings: str
    runtime: str
    seeds: int
    frames: int
    base: Row
    tables: tuple[AblationTable, ...]


@dataclass(frozen=True, kw_only=True)
class Goal:
    """Limits that settings should stay within; None: no limit."""

    max_loss: float | None = None
    """Maximum loss in percent of the mIoU of the network on every frame; needs labels."""
    max_change: float | None = None
    """Maximum share of the pixels, 0 to 1, whose label differs from that of the network on every frame."""
    target_fps: float | None = None
    max_latency_ms: float | None = None
    """Maximum latency of 95 % of the frames."""

    def __post_init__(self) -> None:
        if self.max_change is not None:  # parsed like the setting of that name, which may be text such as 2%
            object.__setattr__(self, "max_change", SETTINGS["max_change"].read("max_change", self.max_change))

    def __str__(self) -> str:
        parts = []
        if self.max_loss is not None:
            parts.append(f"at most {self.max_loss:g} % of mIoU lost")
        if self.max_change is not None:
            parts.append(f"at most {100 * self.max_change:g} % of the pixels changed")
        if self.target_fps is not None:
            parts.append(f"at least {self.target_fps:g} FPS")
        if self.max_latency_ms is not None:
            parts.append(f"at most {self.max_latency_ms:g} ms")
        return ", ".join(parts)

    @property
    def is_speed_only(self) -> bool:
        return self.max_loss is None and self.max_change is None

    def is_met_by(self, row: Row) -> bool:
        """True if a row stays within every limit. A figure that was not measured does not."""
        latency = None if row.latency is None else row.latency.p95_ms
        limits = ((row.loss, self.max_loss), (row.changed, self.max_change), (latency, self.max_latency_ms))
        within = all(limit is None or (value is not None and value <= limit) for value, limit in limits)
        return within and (self.target_fps is None or row.fps >= self.target_fps)


@dataclass(frozen=True, kw_only=True)
class TuneResult(Result):
    """Settings tried on one part of a video, chosen by a goal, and checked on the other part."""

    kind: ClassVar[str] = "tune"
    source: str
    size: Size
    frames: int
    """Number of frames that the settings were chosen on."""
    checked_frames: int
    """Number of other frames, which the choice was checked on."""
    rate: float | None
    """FPS of the source; None if unknown."""
    runtime: str
    goal: Goal
    flicker: float
    """Share of the pixels that the network labels differently from one frame to the next, after warping."""
    outcomes: tuple[Row, ...]
    """One row for each way tried. The first is the model on every frame."""
    best: Row | None
    """The chosen way, as estimated; None if none reaches the goal."""
    check: Row | None
    """The chosen way, measured on other frames."""
    verdict: str

    def __post_init__(self) -> None:
        require(len(self.outcomes) > 0, "outcomes has at least one, of every frame", len(self.outcomes))


def find_row(rows: Iterable[Row], way: Way) -> Row:
    """The row of a way."""
    return next(row for row in rows if row.way == way)
