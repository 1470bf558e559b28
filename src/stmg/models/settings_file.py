"""Settings files: how a model is to run on a kind of video, as `stmg tune` writes it and `--settings` reads it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, is_dataclass
from pathlib import Path

import yaml

from stmg.errors import SettingsError
from stmg.files import build_dataclass, read_mapping, write_atomically
from stmg.streaming.schedulers import Scheduler, read_scheduler
from stmg.streaming.settings import Mode
from stmg.video.frames import check_size


@dataclass(frozen=True, kw_only=True)
class SavedSettings:
    """What a settings file may hold; None leaves a setting to the model.

    In YAML, or in JSON if the name ends in .json:

        mode: offline
        offline: {name: drift, key_above: 0.6, longest: 12}
        motion: dis-medium
        size: [360, 480]
        runtime: openvino
    """

    mode: Mode | None = None
    scheduler: dict[str, object] | None = None
    """The scheduler of online mode: its name and its settings."""
    offline: dict[str, object] | None = None
    """The scheduler of offline mode: its name and its settings."""
    motion: str | None = None
    fusion: float | None = None
    partial_scale: float | None = None
    max_change: float | None = None
    """Share of the pixels that an anchor may change of what would have been shown."""
    size: tuple[int, int] | None = None
    """(height, width) to work at."""
    runtime: str | None = None
    precision: str | None = None
    threads: int | None = None
    notes: dict[str, object] = field(default_factory=dict)
    """Model, video, measurements: whatever whoever wrote it wants known."""

    def __post_init__(self) -> None:
        for key, value in (("scheduler", self.scheduler), ("offline", self.offline)):
            if value is not None and "name" not in value:
                raise SettingsError(f"{key} has a name and its settings; got {value!r}")
        if self.size is not None:
            check_size(self.size)

    def streaming(self) -> dict[str, object]:
        """The fields of `StreamSettings` that are given; without the size, which evaluations give their frames."""
        fields: dict[str, object] = {
            "mode": self.mode,
            "motion": self.motion,
            "fusion": self.fusion,
            "partial_scale": self.partial_scale,
            "max_change": self.max_change,
        }
        for name, value in (("scheduler", self.scheduler), ("offline", self.offline)):
            if value is not None:
                fields[name] = read_scheduler(value)
        return {name: value for name, value in fields.items() if value is not None}


def read_settings(path: str | Path) -> SavedSettings:
    """The settings in a file; errors name the file and what is wrong in it."""
    path = Path(path)
    content = read_mapping(path, SettingsError)
    try:
        settings = build_dataclass(SavedSettings, content)
        settings.streaming()
    except SettingsError as error:
        raise SettingsError(f"{path}: {error}") from None
    return settings


def write_settings(settings: SavedSettings, path: str | Path) -> None:
    """Write the settings that are given, in JSON if the name ends in .json, else in YAML."""
    path = Path(path)
    content = {name: value for name, value in asdict(settings).items() if value not in (None, {})}
    text = json.dumps(content, indent=2) + "\n"
    if path.suffix.lower() != ".json":
        text = yaml.safe_dump(json.loads(text), sort_keys=False, allow_unicode=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, text.encode())


def scheduler_fields(scheduler: Scheduler) -> dict[str, object]:
    """A scheduler as a settings file holds it: its name and its settings."""
    if not is_dataclass(scheduler) or isinstance(scheduler, type):
        raise SettingsError(f"{scheduler!r} cannot be written: only the schedulers of stmg have a name and settings")
    return {"name": scheduler.name, **asdict(scheduler)}
