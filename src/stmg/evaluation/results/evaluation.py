"""What `evaluate` measured: streams beside the base network on every frame."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from stmg.errors import require
from stmg.evaluation.results.common import FrameCost, Picture, Result, Size
from stmg.streaming.schedulers import Level
from stmg.streaming.settings import Mode


@dataclass(frozen=True)
class ClassIou:
    """IoU of one class; None if it neither occurs nor is predicted."""

    name: str
    iou: float | None


@dataclass(frozen=True)
class DistanceScore:
    """Accuracy of the frames that lie so far from the frame that their labels come from."""

    distance: int
    """Frames: online since the last key frame, offline to the nearer anchor, in realtime since the anchor."""
    share: float
    """Of the frames with labels, in percent."""
    miou: float | None
    base_miou: float | None
    """The base network's on the same frames."""


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
    """Empty for the base network itself."""
    levels: tuple[LevelShare, ...]
    kept_blocks: float | None
    """Share of the blocks that ran on partial frames."""
    cost: FrameCost | None


@dataclass(frozen=True, kw_only=True)
class ModeScores:
    """A stream in one mode."""

    mode: Mode
    network_intervals: int | None = None
    """Of realtime: how many frame intervals the network takes."""
    copied: bool = False
    """Of realtime: whether the last finished labels are shown as they are, as one would without motion."""
    settings: str
    """In words."""
    network_share: float
    """Frames that were given to the network, in percent."""
    mean_distance: float
    """Frames to the frame that labels come from, of a mean frame."""
    stale_share: float
    """Frames that still had the labels of another scene, in percent."""
    scores: StreamScores

    @property
    def name(self) -> str:
        if self.network_intervals is None:
            return self.mode
        plural = "s" if self.network_intervals > 1 else ""
        return f"{'copied' if self.copied else 'realtime'}, {self.network_intervals} interval{plural}"


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
    """Streams beside the base network on every frame."""

    kind: ClassVar[str] = "evaluation"
    data: str
    split: str
    size: Size
    settings: str
    """Of the first stream, in words."""
    runtime: str
    """What computed, in words."""
    base: StreamScores
    modes: tuple[ModeScores, ...]
    """Of each mode; realtime once for each number of intervals, with copied labels beside it."""
    truth_consistency: float | None
    """The temporal consistency of the labels themselves, which bounds what a network can be blamed for."""
    motion: dict[str, int]
    """Frames of the first stream by where their flow came from."""
    frames: tuple[FrameRecord, ...]
    """The first stream's, one by one; the first of them if there are very many."""
    paper_protocol: PairScores | None = None
    pictures: tuple[Picture, ...] = ()

    def __post_init__(self) -> None:
        require(len(self.modes) > 0, "modes has at least one", len(self.modes))

    @property
    def stream(self) -> StreamScores:
        """The first stream: online, unless another mode was chosen."""
        return self.modes[0].scores

    def mode(self, mode: Mode) -> ModeScores:
        """The first stream of a mode."""
        return next(each for each in self.modes if each.mode == mode)
