"""What is known of a live stream: its controls, its status, and all of it as the API shows it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from stmg.errors import SettingsError
from stmg.serve.figures import LiveFigures
from stmg.streaming.motion import MOTION_ESTIMATORS
from stmg.streaming.settings import check_mode


@dataclass(frozen=True)
class Controls:
    """What can be changed while a stream runs."""

    paused: bool = False
    opacity: float = 0.5
    mode: str = "realtime"
    motion: str = "dis"
    max_change: float | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.opacity <= 1:
            raise SettingsError(f"opacity is from 0 to 1; got {self.opacity}")
        check_mode(self.mode)
        if self.motion not in MOTION_ESTIMATORS:
            raise SettingsError(f"motion is one of {', '.join(MOTION_ESTIMATORS)}; got {self.motion!r}")
        if self.max_change is not None and not 0 < self.max_change < 1:
            raise SettingsError(f"max_change is a share above 0 and below 1; got {self.max_change}")

    def streaming(self) -> dict[str, Any]:
        """The fields of `Settings` among them."""
        return {"mode": self.mode, "motion": self.motion, "max_change": self.max_change}


@dataclass(frozen=True)
class Status:
    """How a stream is doing; times are seconds since 1970."""

    state: str = "starting"
    """starting, live, offline or ended."""
    reason: str | None = None
    """Why it is down, or what it waits for."""
    since: float = 0.0
    next_try: float | None = None
    """When its source is opened again."""


@dataclass(frozen=True)
class StreamInfo:
    """A stream as the API shows it."""

    name: str
    source: str
    """Without credentials."""
    model: str
    status: Status
    controls: Controls
    figures: LiveFigures
    classes: dict[str, tuple[int, int, int]]
    """RGB colors of the classes that have names."""
    recording: str | None
    """What happens to its results on disk: recording, or why not; None: nothing is to be recorded."""
