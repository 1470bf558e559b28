"""Configuration of a server, from a YAML file or the command line. It is checked only here."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from stmg.errors import SettingsError, require
from stmg.files import build_dataclass
from stmg.models.names import is_user_function
from stmg.models.spec import ModelSpec, merge_file
from stmg.runtimes.engines import GRAPH_ENGINES
from stmg.video.addresses import hide_credentials, hide_in_text

NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")
MOST_STREAMS = 64


@dataclass(frozen=True, kw_only=True)
class StreamConfig:
    """A stream on the page."""

    name: str
    """Small letters, digits and hyphens. Used in addresses and metrics."""
    source: str = field(repr=False)
    """As in `stmg segment`, or street:SEED. May contain a password: call `hide_credentials` before showing it."""
    model: str | None = None
    """A name as in `--model`. None: the model of the server."""
    settings: object = None
    """A settings file or its content."""
    fps: float | None = None
    """Frame rate of a folder of images or of a rendered street."""
    loop: bool = True
    """Restart a file at its end."""

    def __post_init__(self) -> None:
        require(
            NAME.fullmatch(self.name) is not None,
            "the name of a stream has at most 40 small letters, digits and hyphens",
            repr(self.name),
        )
        require(self.fps is None or 0.1 <= self.fps <= 240, "fps is from 0.1 to 240", self.fps)
        require(self.source != "-", "standard input cannot be served; write it to a file, or give a URL", "-")


@dataclass(frozen=True, kw_only=True)
class UploadLimits:
    """Limits of videos dropped on the page."""

    megabytes: float = 500.0
    """Maximum size of one file."""
    waiting: int = 4
    """Maximum number of waiting files."""
    kept: int = 12
    """Maximum number of files whose results are kept. A new file replaces the oldest."""
    minutes: float = 10.0
    """Maximum length of a video."""
    megapixels: float = 9.0
    """Maximum size of a frame."""
    keep_hours: float = 6.0
    """Time that results are kept."""
    work_minutes: float = 60.0
    """Maximum time to work on one file."""
    memory_megabytes: float = 4000.0
    """Maximum memory of the process that works on a file."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            require(value >= 0 if name == "waiting" else value > 0, f"uploads.{name} is above 0", value)


@dataclass(frozen=True, kw_only=True)
class RecordConfig:
    """Recording of every stream in segments: overlay and records."""

    folder: str
    minutes: float = 5.0
    """Length of a segment."""
    gigabytes: float = 10.0
    """Maximum size of all segments of all streams together. The oldest are removed."""
    hours: float = 168.0
    """Age at which a segment is removed."""

    def __post_init__(self) -> None:
        require(min(self.minutes, self.gigabytes, self.hours) > 0, "minutes, gigabytes and hours are above 0", self)


@dataclass(frozen=True, kw_only=True)
class ServeConfig:
    """A server. As a file:

    model: lite0-camvid
    streams:
      - {name: gate, source: "rtsp://user:secret@10.0.0.7/live"}
      - {name: yard, source: camera:0, model: out/lite0-int8, settings: tuned.yaml}
    sources: {spare: "rtsp://10.0.0.8/live"}
    """

    streams: tuple[StreamConfig, ...]
    model: str | None = None
    settings: object = None
    """Settings of streams that have none of their own."""
    sources: dict[str, str] = field(default_factory=dict, repr=False)
    """Sources by name that clients may add besides the streams above."""
    host: str = "127.0.0.1"
    port: int = 8000
    hosts: tuple[str, ...] = ()
    """Host names of the server, besides localhost and IP addresses."""
    token: str | None = field(default=None, repr=False)
    """Secret that clients must send. Required unless the host is a loopback address."""
    insecure: bool = False
    """Allow a host other than loopback without a token."""
    record: RecordConfig | None = None
    uploads: UploadLimits | None = field(default_factory=UploadLimits)
    """Limits of uploads. None: the page accepts no files."""
    viewers: int = 200
    """Maximum number of connections that follow pictures or events."""
    retry_seconds: tuple[float, float] = (1.0, 30.0)
    """First and longest wait before a source that is down is reopened."""

    def __post_init__(self) -> None:
        names = [stream.name for stream in self.streams]
        double = {name for name in names if names.count(name) > 1} | (set(names) & set(self.sources))
        require(not double, "each stream and source has a name of its own", ", ".join(sorted(double)))
        require(bool(self.streams or self.sources), "give at least one stream or source", "none")
        require(len(self.streams) <= MOST_STREAMS, f"at most {MOST_STREAMS} streams", len(self.streams))
        for name in self.sources:
            require(NAME.fullmatch(name) is not None, "the name of a source has small letters, digits, hyphens", name)
        require(0 <= self.port < 65536, "port is from 0 to 65535", self.port)
        require(self.viewers > 0, "viewers is above 0", self.viewers)
        require(0 < self.retry_seconds[0] <= self.retry_seconds[1], "retry_seconds grow", self.retry_seconds)
        require(self.token is None or len(self.token) >= 8, "the token has at least 8 characters", "a shorter one")
        if not is_loopback(self.host) and self.token is None and not self.insecure:
            raise SettingsError(
                f"{self.host} can be reached from other machines: set a token (--token, or STMG_TOKEN), or use "
                "--insecure to let anyone in"
            )

    def stream_of(self, source: str) -> StreamConfig | None:
        """The stream that a client may add under this name; None if there is none."""
        for stream in self.streams:
            if stream.name == source:
                return stream
        if source in self.sources:
            return StreamConfig(name=source, source=self.sources[source])
        return None

    def hide_credentials(self, text: str) -> str:
        """Remove the credentials of all sources from a text, such as an error."""
        return hide_in_text(text, [*(stream.source for stream in self.streams), *self.sources.values()])


def read_config(path: Path, given: Mapping[str, object] | None = None) -> ServeConfig:
    """Read a server from a YAML file. Paths in it are relative to its folder. Errors name the file, never a source.

    given: settings that override those of the file.
    """
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, yaml.YAMLError) as error:
        where = getattr(error, "problem_mark", None)
        line = f", line {where.line + 1}" if where is not None else ""
        raise SettingsError(f"{path} is not YAML{line}") from None  # the original error may quote a password
    if not isinstance(content, Mapping):
        raise SettingsError(f"{path} holds no settings by name, such as streams: [...]")
    values = {**content, **(given or {})}
    try:
        config = build_dataclass(ServeConfig, values)
    except SettingsError:
        raise SettingsError(f"{path}: {_find_mistake(values)}") from None
    folder = path.absolute().parent
    streams = tuple(
        replace(
            stream,
            source=_source_beside(folder, stream.source),
            model=stream.model and _model_beside(folder, stream.model),
            settings=_settings_beside(folder, stream.settings),
        )
        for stream in config.streams
    )
    return replace(
        config,
        streams=streams,
        model=config.model and _model_beside(folder, config.model),
        settings=_settings_beside(folder, config.settings),
        sources={name: _source_beside(folder, source) for name, source in config.sources.items()},
        record=config.record and replace(config.record, folder=str(folder / config.record.folder)),
    )


def make_model_spec(model: str | None, settings: object) -> ModelSpec:
    """The spec of a stream's model and settings."""
    if model is None:
        raise SettingsError("no model is given; use --model NAME, or model: NAME in the configuration")
    if settings is not None and not isinstance(settings, str | Path | Mapping):
        raise SettingsError(f"settings is a file, or settings by name; got {settings!r}")
    return ModelSpec(model, merge_file(settings, {}))


def is_loopback(host: str) -> bool:
    """True if only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _find_mistake(values: Mapping[str, object]) -> str:
    """Describe the mistake in a configuration, without credentials."""
    try:
        # Hide credentials before the check: its message may cut a value off in the middle of a password.
        build_dataclass(ServeConfig, _without_credentials(values))
    except SettingsError as error:
        return "token is text" if str(error).startswith("token is ") else str(error)
    return "an address in it does not fit"


def _without_credentials(value: Any) -> Any:
    """Remove the credentials of the addresses in a value of a file."""
    if isinstance(value, Mapping):
        return {_without_credentials(name): _without_credentials(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_without_credentials(item) for item in value]
    return hide_credentials(value) if isinstance(value, str) else value


def _source_beside(folder: Path, source: str) -> str:
    """Make the path or pattern of a source relative to the folder of the configuration."""
    return source if "://" in source or source.startswith(("camera:", "street:")) else str(folder / source)


def _model_beside(folder: Path, name: str) -> str:
    """Make the path of a model relative to the configuration's folder. Names, Hub ids and package functions stay."""
    file = name.rpartition(":")[0] if is_user_function(name) else name
    if file != name and not file.endswith(".py"):
        return name
    is_path = Path(file).suffix in (".py", *GRAPH_ENGINES) or file.startswith(".") or file.count("/") > 1
    is_beside = (folder / file).exists() or ("/" in file and (folder / file).parent.exists())
    return str(folder / name) if is_path or is_beside else name


def _settings_beside(folder: Path, settings: object) -> object:
    return str(folder / settings) if isinstance(settings, str) else settings
