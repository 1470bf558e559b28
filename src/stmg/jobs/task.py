"""What goes between whoever hands out the work and the workers: settings, tasks and their outcomes, no frames."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass, replace
from glob import escape
from pathlib import Path
from typing import NamedTuple

from stmg.errors import MissingPackageError, SettingsError
from stmg.jobs.storage import Folder
from stmg.jobs.videos import Video
from stmg.models.model_files import list_companion_files, list_model_files
from stmg.models.resolve import ModelSpec, open_adapted
from stmg.outputs.choose import choose_outputs
from stmg.streaming.offline import SEAM

CHUNK = 16 * SEAM
"""Frames of a part of a long video, unless another number is given: about ten minutes."""
MARKER = "done.json"
"""The last file written of a video, or of a part: without it the others do not count."""
PARTS = ".parts"
"""Folder of the parts of a video that is not yet joined."""
MODES = ("offline", "online")  # realtime depends on how fast the machine is


@dataclass(frozen=True, kw_only=True)
class BatchSettings:
    """How the videos of a batch are segmented, and what is written of each."""

    spec: ModelSpec
    mode: str = "offline"
    save: tuple[str, ...] | None = None
    """Names of outputs, as `stmg segment --save` takes them; None: those it writes by default."""
    areas: bool = False
    background: str | None = None
    every: int = 1
    limit: int | None = None
    fps: float | None = None
    """Of folders of images."""
    chunk: int = CHUNK
    """Frames after which a long video is cut, rounded up to a multiple of `SEAM`; 0: never."""

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise SettingsError(f"the mode of a batch is {' or '.join(MODES)}; got {self.mode!r}")
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
        """Whether parts of a video, each on its own, are what the whole would be."""
        return self.chunk > 0 and self.mode == "offline" and self.spec.streaming.get("max_change") is None

    def key(self, video: Video) -> str:
        """Tells apart what another video, model or setting would give; not how the work was shared."""
        same = replace(self, chunk=0, spec=replace(self.spec, threads=None))
        text = repr((same, video.address, video.stamp, _model_stamps(self.spec)))
        return hashlib.sha256(text.encode()).hexdigest()[:32]


def _model_stamps(spec: ModelSpec) -> list[tuple[str, int, int]]:
    """Sizes and times of the files of the model and its corrector, where they are here."""
    files = [*_list_files_here(open_adapted(spec)), *list_companion_files(spec)]
    return [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in files if file.is_file()]


def _list_files_here(spec: ModelSpec) -> list[Path]:
    """Files of the model itself; none of a name, behind which the weights stay what they are."""
    path = Path(spec.name)
    if not path.exists():
        return []
    try:
        return list_model_files(spec)
    except MissingPackageError:  # OpenVINO runs an ONNX file without the package that reads what belongs to it
        return sorted(path.parent.glob(f"{escape(path.name)}*"))


class Part(NamedTuple):
    """Some frames of a long video in a row; neighbors share the frame between them."""

    number: int
    first: int
    """Index of its first frame in the video, which the part before it writes."""
    last: int
    """Index of its last frame."""


@dataclass(frozen=True)
class Task:
    """A piece of work: a whole video, one part of it, or its parts to be joined."""

    video: Video
    key: str
    part: Part | None = None
    parts: tuple[Part, ...] = ()
    """To be joined; empty if the task is not to join."""
    share: float = 1.0
    """Of the work that the video is."""

    @property
    def folder(self) -> str:
        """Where its outputs go, within the output folder."""
        return self.video.name if self.part is None else f"{self.video.name}/{PARTS}/{self.part.number:06d}"

    @property
    def marker(self) -> str:
        """What its marker says: of a part also which frames it is, as another `chunk` would have others."""
        return self.key if self.part is None else f"{self.key}-{self.part.first}-{self.part.last}"

    @property
    def size(self) -> float:
        """Bytes of video that the task is about."""
        return self.share * self.video.size


class Figures(NamedTuple):
    """What a video took."""

    frames: int = 0
    network_runs: int = 0
    """Frames that the network computed."""
    seconds: float = 0.0
    """Of workers, added up."""
    note: str = ""
    """On what of it could not be decoded."""

    def plus(self, other: Figures) -> Figures:
        return Figures(
            self.frames + other.frames,
            self.network_runs + other.network_runs,
            self.seconds + other.seconds,
            self.note or other.note,
        )


NOTHING = Figures()


@dataclass(frozen=True)
class Outcome:
    """What became of a task."""

    task: Task
    status: str
    """done, failed, or cut: into parts, each of which is a task of its own now."""
    figures: Figures = NOTHING
    reason: str = ""
    """Why it failed, in a line."""
    parts: tuple[Part, ...] = ()


def read_marker(out: Folder, task: Task) -> Figures | None:
    """The figures of a task that was done before; None if it was not, or not to the end."""
    try:
        content = json.loads(out.read(f"{task.folder}/{MARKER}") or b"{}")
        is_same = content["key"] == task.marker
        return Figures(**{name: content[name] for name in Figures._fields}) if is_same else None
    except (ValueError, KeyError, TypeError):
        return None
