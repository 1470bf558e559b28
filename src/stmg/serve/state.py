"""State of a live stream as the API shows it: its controls, its status, its figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from stmg.errors import SettingsError
from stmg.serve.figures import LiveFigures
from stmg.streaming.settings import Settings, live_settings


@dataclass(frozen=True)
class Control:
    """A setting that can be changed on the page."""

    name: str
    help: str
    values: tuple[object, ...] | None
    """Values to choose from. None: a text field."""


def list_controls() -> list[Control]:
    """One control for each setting that may change while a stream runs."""
    settings = live_settings()
    return [Control(name, each.full_help, each.offered and each.offered()) for name, each in settings.items()]


@dataclass(frozen=True)
class Controls:
    """Everything that can be changed while a stream runs."""

    paused: bool = False
    opacity: float = 0.5
    settings: Mapping[str, Any] = field(default_factory=dict)
    """The live settings by name."""

    def __post_init__(self) -> None:
        if not 0 <= self.opacity <= 1:
            raise SettingsError(f"opacity is from 0 to 1; got {self.opacity}")

    @property
    def mode(self) -> str:
        return str(self.settings["mode"])

    def change(self, changes: Mapping[str, Any]) -> Controls:
        """Change some values by name. None is allowed only where the page offers it."""
        own = {name: value for name, value in changes.items() if name in ("paused", "opacity")}
        settings = {name: value for name, value in changes.items() if name not in own}
        for name in settings:
            if name not in self.settings:
                names = ", ".join(("paused", "opacity", *self.settings))
                raise SettingsError(f"there is no control {name}; there are {names}")
        offered = {name: each.offered() for name, each in live_settings().items() if each.offered}
        for name, value in changes.items():
            if value is None and None not in offered.get(name, ()):
                raise SettingsError(f"{name} cannot be null")
        return replace(self, **own, settings={**self.settings, **settings})

    def with_settings(self, settings: Settings) -> Controls:
        """Take the live settings from a segmenter's settings, as plain values."""
        values = {name: getattr(settings, name) for name in live_settings()}
        return replace(self, settings={name: getattr(value, "name", value) for name, value in values.items()})

    def as_dict(self) -> dict[str, Any]:
        return {"paused": self.paused, "opacity": self.opacity, **self.settings}


@dataclass(frozen=True)
class Status:
    """The condition of a stream. Times are seconds since 1970."""

    state: str = "starting"
    """starting, live, offline or ended."""
    reason: str | None = None
    """Reason why it is down, or what it waits for."""
    since: float = 0.0
    next_try: float | None = None
    """Time at which its source will be opened again."""


@dataclass(frozen=True)
class StreamInfo:
    """A stream as the API shows it."""

    name: str
    source: str
    """The source without credentials."""
    model: str
    status: Status
    controls: dict[str, Any]
    """paused, opacity, and the settings that may change while it runs."""
    figures: LiveFigures
    classes: dict[str, tuple[int, int, int]]
    """RGB colors of the classes that have names."""
    recording: str | None
    """recording, or the reason why nothing is recorded. None: recording is off."""
