"""Results: what `evaluate`, `benchmark`, `ablate` and `profile` measured; JSON, tables and plots are views of them.

Accuracies and shares are in percent, times in milliseconds; None stands where there was nothing to measure.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

from stmg.evaluation.machine import Machine
from stmg.evaluation.method import Method
from stmg.streaming.cost import Cost
from stmg.streaming.schedulers import Level

Size = tuple[int, int]
"""(height, width)."""


def percent(share: float) -> float | None:
    """A share from 0 to 1 as results state it; None for NaN."""
    return None if math.isnan(share) else round(100 * share, 3)


@dataclass(frozen=True, kw_only=True)
class Result:
    """What every result says of where it comes from."""

    kind: ClassVar[str]
    command: str = ""
    """What was typed; empty if the result was computed from Python."""
    machine: Machine
    model: str
    interrupted: bool = False
    """Whether Ctrl-C ended it early: what was measured until then is there."""


@dataclass(frozen=True)
class Picture:
    """A picture that only the run itself could draw, a PNG file beside the result."""

    file: str
    caption: str
    png: bytes = field(default=b"", repr=False)


@dataclass(frozen=True)
class FrameCost:
    """Executed by a mean frame."""

    macs: int
    """Multiply-accumulates, those of the mask generator included."""
    macs_without_head: int
    """As the paper counts."""
    params: int

    @classmethod
    def of(cls, cost: Cost | None) -> FrameCost | None:
        return None if cost is None else cls(cost.macs, cost.macs - cost.head_macs, cost.params)


@dataclass(frozen=True)
class ClassIou:
    """IoU of one class; None if it neither occurs nor is predicted."""

    name: str
    iou: float | None


@dataclass(frozen=True)
class DistanceScore:
    """Accuracy of the frames that lie so many frames after the last key frame."""

    distance: int
    miou: float | None


@dataclass(frozen=True)
class LevelShare:
    """How many of the frames had a level."""

    level: Level
    share: float


@dataclass(frozen=True, kw_only=True)
class StreamScores:
    """Accuracy and cost of one stream."""

    frames: int
    miou: float | None
    """None without labels."""
    classes: tuple[ClassIou, ...]
    boundary_iou: float | None
    consistency: float | None
    """Temporal: mIoU of the labels of a frame and those of the frame before, warped onto it."""
    agreement_pixels: float | None
    """Pixels with the same label as the base network's."""
    agreement_miou: float | None
    by_distance: tuple[DistanceScore, ...]
    """By frames since the stream's last key frame; the base network's on the same frames."""
    levels: tuple[LevelShare, ...]
    kept_blocks: float | None
    """Share of the blocks that ran on partial frames."""
    cost: FrameCost | None


@dataclass(frozen=True)
class PairScores:
    """The paper's protocol: each labeled frame given the frame before it as its key frame."""

    frames: int
    level: Level
    base_miou: float | None
    miou: float | None


@dataclass(frozen=True)
class FrameRecord:
    """What was decided on one frame of a stream."""

    level: Level
    distortion: float | None
    drift: float
    kept_blocks: float | None
    """Share of the blocks that ran, 0 to 1; None for a network without blocks to skip."""
    latency_ms: float


@dataclass(frozen=True, kw_only=True)
class EvaluationResult(Result):
    """A stream beside the base network on every frame."""

    kind: ClassVar[str] = "evaluation"
    data: str
    split: str
    size: Size
    settings: str
    """Of the stream, in words."""
    runtime: str
    """What computed, in words."""
    base: StreamScores
    stream: StreamScores
    truth_consistency: float | None
    """The temporal consistency of the labels themselves, which bounds what a network can be blamed for."""
    motion: dict[str, int]
    """Frames by where their flow came from."""
    frames: tuple[FrameRecord, ...]
    """The stream's, one by one; the first of them if there are very many."""
    paper_protocol: PairScores | None = None
    pictures: tuple[Picture, ...] = ()


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
    slowest_frame: float
    """The slowest frame, by the fastest of its repeats, relative to a median frame of the base network."""
    end_to_end_fps: float
    """With reading and drawing frames."""
    latency: Latency
    levels: tuple[LevelLatency, ...]
    cost: FrameCost | None


@dataclass(frozen=True, kw_only=True)
class BenchmarkRow:
    """One method over the frames of a benchmark."""

    method: Method
    miou: float | None
    """None without labels, or where the model is untrained or of other classes."""
    timing: Timing
    peak_memory: int | None
    """Bytes of a process of its own, Python and its libraries included; None where it was not measured."""
    latencies: tuple[float, ...] = ()
    """Milliseconds of each frame of the first repeat, of the model's base and stream."""
    levels: tuple[Level, ...] = ()
    """Of the same frames."""


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

    def row(self, method: Method) -> BenchmarkRow:
        """The row of a method; the base network and the stream always have one."""
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


@dataclass(frozen=True, kw_only=True)
class AblationRow:
    """One setting; means over the seeds where something is random."""

    name: str
    miou: float | None
    miou_std: float | None
    """Over the seeds; None for a single run."""
    seeds: int
    cost: FrameCost | None
    key_share: float
    kept_blocks: float | None
    fps: float | None = None
    gain: float | None = None


@dataclass(frozen=True)
class AblationTable:
    """Settings that are compared with each other."""

    title: str
    rows: tuple[AblationRow, ...]


@dataclass(frozen=True, kw_only=True)
class AblationResult(Result):
    """What each part is worth."""

    kind: ClassVar[str] = "ablation"
    data: str
    split: str
    size: Size
    settings: str
    runtime: str
    seeds: int
    frames: int
    base: AblationRow
    tables: tuple[AblationTable, ...]


@dataclass(frozen=True, kw_only=True)
class BudgetOutcome:
    """What a drift budget would do with a video."""

    budget: float
    key_share: float
    """Of the frames, 0 to 1."""
    changed: float
    """Share of the pixels, 0 to 1, whose label would differ from the whole network's."""
    gain: float
    """Expected FPS relative to the network on every frame."""


@dataclass(frozen=True, kw_only=True)
class ProfileResult(Result):
    """How much of a video repeats, and what that is worth."""

    kind: ClassVar[str] = "profile"
    source: str
    size: Size
    frames: int
    cuts: int
    runtime: str
    base_ms: float
    carry_ms: float | None
    """A carried frame; None if no budget carried any."""
    distortion: tuple[float, ...]
    """Of each frame against the one before, after motion: what repeats is low; the first frame and cuts are 1."""
    budgets: tuple[BudgetOutcome, ...]
    max_changed: float
    """Share of the labels, 0 to 1, that may change."""
    best: BudgetOutcome | None
    """The fastest that changes at most that; None if none does."""
    verdict: str
