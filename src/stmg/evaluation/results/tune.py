"""What `tune` measured: the trade-off of a model on a video, what was chosen, and whether it held."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from stmg.errors import require
from stmg.evaluation.results.common import Result, Size

TuneMode = Literal["every frame", "online", "offline", "realtime"]


@dataclass(frozen=True, kw_only=True)
class Goal:
    """What settings should do; None: no matter."""

    max_loss: float | None = None
    """Percent of the mIoU of the network on every frame; needs labels."""
    max_change: float | None = None
    """Share of the pixels, 0 to 1, whose label may differ from that of the network on every frame."""
    target_fps: float | None = None
    max_latency_ms: float | None = None
    """That 95 % of the frames stay within."""


@dataclass(frozen=True, kw_only=True)
class TuneSetting:
    """One way to run a stream."""

    model: str
    mode: TuneMode
    motion: str | None = None
    budget: float | None = None
    """Of drift; None where there is none."""
    longest: int | None = None
    """Most frames from one computed frame to the next."""
    size: Size | None = None
    """(H, W) to work at, where that is smaller than the model's own."""

    def __str__(self) -> str:
        size = "" if self.size is None else f", {self.size[0]}x{self.size[1]}"
        if self.mode == "every frame":
            return f"{self.mode}{size}"
        budget = "" if self.budget is None else f" {self.budget:g}/{self.longest}"
        return f"{self.mode}{budget}, {self.motion}{size}"


@dataclass(frozen=True, kw_only=True)
class TuneOutcome:
    """What a setting gives on some frames."""

    setting: TuneSetting
    key_share: float
    """Of the frames, 0 to 1: runs of the network."""
    changed: float
    """Share of the pixels, 0 to 1, whose label differs from that of the first model on every frame."""
    miou: float | None
    """In percent; None without labels."""
    loss: float | None
    """Percent of the mIoU of the first model on every frame; below 0: a gain."""
    fps: float
    gain: float
    """FPS relative to the first model on every frame."""
    latency_ms: float | None
    """That 95 % of the frames stay within; None offline, where frames wait for others."""

    def meets(self, goal: Goal) -> bool:
        """Whether it reaches all of the goal."""
        limits = (
            (self.loss, goal.max_loss),
            (self.changed, goal.max_change),
            (self.latency_ms, goal.max_latency_ms),
        )
        within = all(limit is None or (value is not None and value <= limit) for value, limit in limits)
        return within and (goal.target_fps is None or self.fps >= goal.target_fps)


@dataclass(frozen=True, kw_only=True)
class TuneResult(Result):
    """Settings tried on one part of a video, chosen by a goal, and checked on the other part."""

    kind: ClassVar[str] = "tune"
    source: str
    size: Size
    frames: int
    """That settings were tried on."""
    checked_frames: int
    """Others, that the choice was checked on."""
    rate: float | None
    """Frames per second of the source; None if it is not known."""
    runtime: str
    goal: Goal
    flicker: float
    """Share of the pixels that the network itself labels differently from one frame to the next, motion followed."""
    outcomes: tuple[TuneOutcome, ...]
    """Of each setting; the first is the first model on every frame."""
    best: TuneOutcome | None
    """What was chosen, as estimated; None if nothing reaches the goal."""
    check: TuneOutcome | None
    """The same, measured on frames that it was not chosen on."""
    verdict: str

    def __post_init__(self) -> None:
        require(len(self.outcomes) > 0, "outcomes has at least one, of every frame", len(self.outcomes))
