"""Which model to run, and how: `ModelSpec`, and the settings files that add to it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, is_dataclass
from pathlib import Path
from typing import Any

import yaml

from stmg.errors import SettingsError
from stmg.files import read_mapping, write_atomically
from stmg.streaming.schedulers import Scheduler
from stmg.streaming.settings import MODES, SETTINGS, Settings, check_modes, make_settings
from stmg.streaming.values import read_scheduler


@dataclass(frozen=True)
class ModelSpec:
    """A model by its name, and the settings chosen for it. `resolve` raises for settings that it cannot honor."""

    name: str
    """Shipped name, folder, Hub id, file (.onnx, .xml, .tflite, .pt, .pt2), torchvision:NETWORK, smp:FOLDER, network
    (ddrnet39), or nets.py:function."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Fields of `Settings` by name. Missing ones are left to the model."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "options", {key: value for key, value in self.options.items() if value is not None})
        make_settings(self.options)

    @property
    def settings(self) -> Settings:
        """The options as settings, with defaults for missing ones."""
        return make_settings(self.options)

    def with_options(self, **options: Any) -> ModelSpec:
        """Return the model with some options replaced. None removes an option."""
        return ModelSpec(self.name, {**self.options, **options})


def as_spec(model: ModelSpec | str | Path) -> ModelSpec:
    """Convert a name or path to a spec. A spec is returned unchanged."""
    return model if isinstance(model, ModelSpec) else ModelSpec(str(model))


def merge_file(settings: str | Path | Mapping[str, Any] | None, options: Mapping[str, Any]) -> dict[str, Any]:
    """Merge a settings file, or its content as a mapping, with options. The options override it."""
    if settings is None:
        return add_arguments({}, options)
    file = read_options(settings) if isinstance(settings, Mapping) else read_settings(settings)
    return add_arguments(file, options)


def merge_options(*layers: Mapping[str, Any]) -> dict[str, Any]:
    """Merge layers of options (card, file, arguments). Later layers override earlier ones; None removes an option."""
    merged: dict[str, Any] = {}
    for layer in layers:
        schedulers = {**merged.get("default_schedulers", {}), **layer.get("default_schedulers", {})}
        merged |= layer
        if schedulers:
            merged["default_schedulers"] = schedulers
    return {name: value for name, value in merged.items() if value is not None}


def add_arguments(file: Mapping[str, Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Merge the options of a settings file with arguments, which override them.

    Raise for an argument that the mode does not use. A file may be for several modes.
    """
    merged = merge_options(file, arguments)
    mode = merged.get("mode")
    if mode in MODES:
        check_modes((name for name, value in arguments.items() if value is not None), mode)
    return merged


def read_settings(path: str | Path) -> dict[str, Any]:
    """Read the options of a settings file. Errors name the file and the mistake."""
    path = Path(path)
    content = read_mapping(path, SettingsError)
    try:
        return read_options(content)
    except SettingsError as error:
        raise SettingsError(f"{path}: {error}") from None


def read_options(content: Mapping[str, Any]) -> dict[str, Any]:
    """Check and convert the content of a settings file to options. None leaves a setting to the model.

    mode: offline
    scheduler: {name: drift, key_above: 0.6, longest: 12}
    motion: dis-medium
    size: [360, 480]
    runtime: openvino

    The scheduler applies to the file's mode, or to every mode if the file has none. In older files, `offline` is the
    scheduler of offline mode and `scheduler` that of online mode. `notes` are for readers.
    """
    allowed = [name for name, each in SETTINGS.items() if each.in_files]
    for name in content:
        if name not in (*allowed, "offline", "notes"):
            raise SettingsError(f"there is no setting {name}; there are {', '.join(allowed)}, notes")
    if not isinstance(content.get("notes", {}), Mapping):
        raise SettingsError(f"notes has names and values; got {content['notes']!r}")
    options = {name: value for name, value in content.items() if value is not None and name != "notes"}
    mode, offline = options.get("mode"), options.pop("offline", None)
    schedulers = {} if offline is None else {"offline": read_scheduler("offline", offline)}
    if "scheduler" in options and (schedulers or mode is not None):
        of = "offline" if mode == "offline" and not schedulers else "online"
        schedulers[of] = read_scheduler("scheduler", options.pop("scheduler"))
    if schedulers:
        options["default_schedulers"] = schedulers
    make_settings(options)
    return {name: tuple(value) if isinstance(value, list) else value for name, value in options.items()}


def write_settings(options: Mapping[str, Any], path: str | Path) -> None:
    """Write the options that are set: as JSON if the name ends in .json, otherwise as YAML."""
    path = Path(path)
    content = {name: _plain(value) for name, value in options.items() if value not in (None, {})}
    text = json.dumps(content, indent=2) + "\n"
    if path.suffix.lower() != ".json":
        text = yaml.safe_dump(json.loads(text), sort_keys=False, allow_unicode=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, text.encode())


def _plain(value: Any) -> Any:
    return scheduler_fields(value) if isinstance(value, Scheduler) else value


def scheduler_fields(scheduler: Scheduler) -> dict[str, object]:
    """A scheduler in the form of a settings file: its name and settings."""
    if not is_dataclass(scheduler) or isinstance(scheduler, type):
        raise SettingsError(f"{scheduler!r} cannot be written; use one of stmg's own schedulers")
    return {"name": scheduler.name, **asdict(scheduler)}
