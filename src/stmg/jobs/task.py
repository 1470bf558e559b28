"""Tasks: the work of a batch with its settings, outcomes and markers of what is done. No frames."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from glob import escape
from pathlib import Path
from typing import Any, NamedTuple

from stmg.errors import MissingPackageError, SettingsError
from stmg.jobs.storage import Folder
from stmg.jobs.videos import Video
from stmg.models.load import open_adapted
from stmg.models.model_files import list_companion_files, list_model_files
from stmg.models.names import is_network, is_user_function
from stmg.models.spec import ModelSpec
from stmg.outputs.choose import choose_outputs
from stmg.outputs.images import parse_color
from stmg.streaming.offline import SEAM
from stmg.streaming.statistics import Statistics

CHUNK = 16 * SEAM
"""Default number of frames of each part of a long video: about ten minutes."""
MARKER = "done.json"
"""The file of a video or a part that is written last. Without it the other files do not count."""
MARKER_FORMAT = 2
"""Markers without a format compared the settings as typed, and cannot be compared with these."""
PARTS = ".parts"
"""Folder of the parts of a video that are not yet joined."""
MODES = ("offline", "online")  # realtime depends on the speed of the machine


@dataclass(frozen=True, kw_only=True)
class BatchSettings:
    """Settings of a batch: model, mode and outputs."""

    spec: ModelSpec
    mode: str = "offline"
    save: tuple[str, ...] | None = None
    """Names of outputs, as for `stmg segment --save`; None: its defaults."""
    areas: bool = False
    background: str | None = None
    every: int = 1
    limit: int | None = None
    fps: float | None = None
    """Frame rate of folders of images."""
    chunk: int = CHUNK
    """Length in frames at which a long video is cut, rounded up to a multiple of `SEAM`. 0: never."""

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise SettingsError(f"the mode of a batch must be {' or '.join(MODES)}; got {self.mode!r}")
        if self.every < 1 or (self.limit is not None and self.limit < 1) or self.chunk < 0:
            raise SettingsError(
                f"every and limit are at least 1, chunk at least 0; got {self.every=}, {self.limit=}, {self.chunk=}"
            )
        if self.fps is not None and not 0 < self.fps < math.inf:
            raise SettingsError(f"fps is above 0; got {self.fps}")
        names = choose_outputs(self.save, areas=self.areas, background=self.background)
        object.__setattr__(self, "save", tuple(names))
        object.__setattr__(self, "chunk", -(-self.chunk // SEAM) * SEAM)

    @property
    def outputs(self) -> tuple[str, ...]:
        assert self.save is not None
        return self.save

    @property
    def may_cut(self) -> bool:
        """True if parts of a video get the same labels on their own as in the whole."""
        return self.chunk > 0 and self.mode == "offline" and self.spec.settings.max_change is None

    def key(self, video: Video) -> str:
        """Identify video, model and settings, however they are typed. How the work is shared does not count."""
        same = {
            **{item.name: getattr(self, item.name) for item in fields(self) if item.name not in ("save", "chunk")},
            "spec": _given(make_portable(self.spec)),
            "outputs": sorted(self.outputs),
            "background": self.background and parse_color(self.background),
            "video": (video.address, video.stamp),
            "model files": sorted(_model_stamps(self.spec)),
        }
        return hashlib.sha256(json.dumps(_plain(same), sort_keys=True).encode()).hexdigest()[:32]


def make_portable(spec: ModelSpec) -> ModelSpec:
    """Make paths absolute and drop the number of the GPU, so that the spec is the same in every folder and machine."""

    def absolute(name: str) -> str:
        file, colon, function = name.rpartition(":") if is_user_function(name) else (name, "", "")
        # A folder may have the name of a network, or of a package with the function.
        is_file = Path(file).exists() and (file.endswith(".py") if colon else not is_network(name))
        return f"{os.path.abspath(file)}{colon}{function}" if is_file else name

    settings, corrector = spec.settings, spec.options.get("corrector")
    return ModelSpec(absolute(spec.name), spec.options).with_options(
        weights=settings.weights and Path(os.path.abspath(settings.weights)),
        network=settings.network and absolute(settings.network),
        corrector=corrector if corrector in (None, "none") else absolute(corrector),
        device="cuda" if (settings.device or "").startswith("cuda") else settings.device,
    )


def _given(spec: ModelSpec) -> dict[str, object]:
    """Name and options of a spec, as they are read, however they were typed."""
    settings = spec.settings
    options = {name: value if name == "motion" else getattr(settings, name) for name, value in spec.options.items()}
    options.pop("threads", None)
    if "default_schedulers" in options:
        options["default_schedulers"] = spec.options["default_schedulers"]
    return {"name": spec.name, **options}


def _plain(value: Any) -> Any:
    """Convert a value to plain JSON. Objects of other packages are identified by their `repr`."""
    if is_dataclass(value) and not isinstance(value, type):
        return {
            "type": type(value).__name__,
            **{item.name: _plain(getattr(value, item.name)) for item in fields(value)},
        }
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value if value is None or isinstance(value, str | int | float) else repr(value)


def _model_stamps(spec: ModelSpec) -> list[tuple[str, int, int]]:
    """Sizes and times of the files of the model and its corrector that are on this machine."""
    files = [*_list_files_here(open_adapted(spec)), *list_companion_files(spec)]
    return [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in files if file.is_file()]


def _list_files_here(spec: ModelSpec) -> list[Path]:
    """Files of the model itself; none for a shipped name or Hub id, whose weights never change."""
    path = Path(spec.name)
    if not path.exists():
        return []
    try:
        return list_model_files(spec)
    except MissingPackageError:  # OpenVINO runs an ONNX file without the package that lists its files
        return sorted(path.parent.glob(f"{escape(path.name)}*"))


class Part(NamedTuple):
    """Consecutive frames of a long video. Neighboring parts share one frame."""

    number: int
    first: int
    """Index of its first frame in the video. That frame belongs to the output of the part before, if there is one."""
    last: int
    """Index of its last frame."""


@dataclass(frozen=True)
class Task:
    """A whole video, one part of it, or its parts to be joined."""

    video: Video
    key: str
    part: Part | None = None
    parts: tuple[Part, ...] = ()
    """Parts to join; empty if the task does not join."""
    share: float = 1.0
    """Share of the work on the video."""

    @property
    def folder(self) -> str:
        """Folder of its outputs, relative to the output folder."""
        return self.video.name if self.part is None else f"{self.video.name}/{PARTS}/{self.part.number:06d}"

    @property
    def marker(self) -> str:
        """The key in its marker. The key of a part includes its frames, which depend on `chunk`."""
        return self.key if self.part is None else f"{self.key}-{self.part.first}-{self.part.last}"

    @property
    def size(self) -> float:
        """Bytes of video that the task covers."""
        return self.share * self.video.size


class Totals(NamedTuple):
    """Statistics of a video in its marker and the manifest."""

    frames: int = 0
    network_runs: int = 0
    """Frames that the network computed."""
    seconds: float = 0.0
    """Seconds of all workers together."""
    note: str = ""
    """Description of frames that could not be decoded."""

    @classmethod
    def of(cls, statistics: Statistics, seconds: float) -> Totals:
        return cls(statistics.num_frames, statistics.network_runs, seconds, statistics.damaged or "")

    def plus(self, other: Totals) -> Totals:
        return Totals(
            self.frames + other.frames,
            self.network_runs + other.network_runs,
            self.seconds + other.seconds,
            self.note or other.note,
        )


NO_TOTALS = Totals()


@dataclass(frozen=True)
class Outcome:
    """The result of a task."""

    task: Task
    status: str
    """done, failed, or cut into parts, each of which becomes a task."""
    totals: Totals = NO_TOTALS
    reason: str = ""
    """Reason of a failure, in one line."""
    parts: tuple[Part, ...] = ()


class Marker(NamedTuple):
    """The content of a task's marker."""

    totals: Totals | None = None
    """None if the task still has to be done."""
    is_older: bool = False
    """True if an older version wrote the marker, whose key cannot be compared."""


def read_marker(out: Folder, task: Task) -> Marker:
    """Read the marker of a task, if there is one."""
    try:
        content = json.loads(out.read(f"{task.folder}/{MARKER}") or b"{}")
        if "key" in content and "format" not in content:
            return Marker(is_older=True)
        is_same = (content["format"], content["key"]) == (MARKER_FORMAT, task.marker)
        return Marker(Totals(**{name: content[name] for name in Totals._fields})) if is_same else Marker()
    except (ValueError, KeyError, TypeError):
        return Marker()
