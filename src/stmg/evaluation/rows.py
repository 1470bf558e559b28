"""Rows: accuracy, cost and speed of a way to run a stream. The results of all verbs are made of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stmg.errors import require
from stmg.evaluation.way import Way
from stmg.streaming.cost import Cost
from stmg.streaming.schedulers import Level


def percent(share: float) -> float | None:
    """Convert a share from 0 to 1 to rounded percent; None for NaN."""
    return None if math.isnan(share) else round(100 * share, 3)


def percent_change(value: float | None, base: float | None) -> float | None:
    """Difference of a value from a base, in percent of the base; None if either is missing."""
    return None if value is None or not base else 100 * (value / base - 1)


def percent_of_macs(cost: FrameCost | None, base: FrameCost | None) -> float | None:
    """The MACs of a mean frame in percent of the base network's; None where they cannot be counted."""
    return None if cost is None or base is None or not base.macs else 100 * cost.macs / base.macs


@dataclass(frozen=True)
class FrameCost:
    """Operations and parameters that a mean frame executes."""

    macs: int
    """Multiply-accumulates, including those of the mask generator."""
    macs_without_head: int
    """MACs without the head, as the paper counts them."""
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
    """Accuracy of the frames at one distance from the frame that their labels come from."""

    distance: int
    """Frames: online since the last key frame, offline to the nearer anchor, in realtime since the anchor."""
    share: float
    """Share of the labeled frames, in percent."""
    miou: float | None
    base_miou: float | None
    """The base network's mIoU on the same frames."""


@dataclass(frozen=True)
class LevelShare:
    """Share of the frames with one level, in percent."""

    level: Level
    share: float


@dataclass(frozen=True)
class Latency:
    """Milliseconds from receiving a frame to returning its labels."""

    p50_ms: float
    p95_ms: float
    max_ms: float

    @classmethod
    def of(cls, times: Sequence[float]) -> Latency:
        middle, high = np.percentile(times, (50, 95))
        return cls(round(float(middle), 3), round(float(high), 3), round(max(times), 3))


@dataclass(frozen=True)
class LevelLatency:
    """Latency of the frames of one level, and their share."""

    level: Level
    share: float
    latency: Latency


@dataclass(frozen=True, kw_only=True)
class Timing:
    """Speed of a stream beside the base network. Ratios are within a repeat, ranges over the repeats."""

    fps: float
    fps_range: tuple[float, float] | None = None
    gain: float
    """FPS relative to the base network's."""
    gain_range: tuple[float, float] | None = None
    expected_gain: float | None = None
    """The base network's MACs relative to the stream's."""
    gain_reached: float | None = None
    """The gain relative to the expected one."""
    carry_overhead: float | None = None
    """A median carried frame relative to the base network's: the overhead of every frame."""
    slowest_frame: float | None = None
    """The slowest frame, by the fastest of its repeats, relative to a median frame of the base network. None if
    frames wait for later ones."""
    end_to_end_fps: float | None = None
    """FPS including reading and drawing frames."""
    latency: Latency | None = None
    levels: tuple[LevelLatency, ...] = ()

    def __post_init__(self) -> None:
        require(self.fps > 0 and self.gain > 0, "fps and gain are above 0", (self.fps, self.gain))


@dataclass(frozen=True, kw_only=True)
class Live:
    """A live stream: frames arrive at the rate of the source, and the network runs in the background."""

    rate: float
    """FPS of the source."""
    latency: Latency
    """Latency of every answered frame except the first of a video, which waits for the network."""
    mean_age: float
    """Mean age of the labels on the screen: frames since the one that they were computed from."""
    p95_age: float
    network_runs: int
    dropped: int
    """Frames skipped because a newer one had arrived."""
    stale: int
    """Frames answered with the labels of another scene."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """The results of a way to run a stream. A field is None, or empty, if it was not, or could not be, measured.

    Accuracies and shares are in percent unless noted.
    """

    way: Way
    """Rows are found by it, as in `run.row(Way(kind="copied-labels", stride=5))`."""
    settings: str = ""
    """Scheduler, motion and so on, in words."""
    frames: int = 0
    miou: float | None = None
    """None without labels, or if the model is untrained or has other classes."""
    miou_std: float | None = None
    """Standard deviation over the seeds; None for a single run."""
    seeds: int = 1
    classes: tuple[ClassIou, ...] = ()
    boundary_iou: float | None = None
    consistency: float | None = None
    """Temporal consistency: mIoU of the labels of a frame and those of the frame before, warped onto it."""
    agreement_pixels: float | None = None
    """Pixels with the same label as the base network's."""
    agreement_miou: float | None = None
    by_distance: tuple[DistanceScore, ...] = ()
    """Empty for the base network itself."""
    network_share: float | None = None
    """Share of the frames given to the network."""
    mean_distance: float | None = None
    """Mean number of frames to the frame that labels come from."""
    stale_share: float | None = None
    """Share of the frames that still had the labels of another scene."""
    levels: tuple[LevelShare, ...] = ()
    kept_blocks: float | None = None
    """Share of the blocks that ran on partial frames."""
    changed: float | None = None
    """From `tune`: share of the pixels, 0 to 1, whose label differs from that of the model on every frame."""
    loss: float | None = None
    """From `tune`: mIoU lost relative to that of the model on every frame. Negative for a gain."""
    cost: FrameCost | None = None
    timing: Timing | None = None
    live: Live | None = None
    model_gain: float | None = None
    """For exports: FPS relative to the model's own base network, in the same repeat."""
    model_gain_range: tuple[float, float] | None = None
    peak_memory: int | None = None
    """Bytes of a process that runs nothing else, Python and its libraries included."""
    latencies: tuple[float, ...] = ()
    """Milliseconds of each frame of the first repeat. Only for the model's base and online streams."""
    frame_levels: tuple[Level, ...] = ()
    """Levels of the same frames."""

    @property
    def name(self) -> str:
        return self.way.name

    @property
    def fps(self) -> float:
        """Frames per second, of a row that was timed."""
        assert self.timing is not None, self.way
        return self.timing.fps

    @property
    def gain(self) -> float:
        """FPS relative to the base network's, of a row that was timed."""
        assert self.timing is not None, self.way
        return self.timing.gain

    @property
    def latency(self) -> Latency | None:
        """Latency of the live stream or of the timing; None without either."""
        if self.live is not None:
            return self.live.latency
        return None if self.timing is None else self.timing.latency

    def share(self, level: Level) -> float:
        """Share of the frames with this level, in percent."""
        return next((each.share for each in self.levels if each.level is level), 0.0)


@dataclass(frozen=True)
class FrameRecord:
    """The decisions on one frame of a stream."""

    level: Level
    distortion: float | None
    drift: float
    kept_blocks: float | None
    """Share of the blocks that ran, 0 to 1; None for a network without blocks to skip."""
    latency_ms: float
