"""Ways to run a stream, as fields for programs and a name for people. Every verb that measures is a list of ways."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, Literal

from stmg.segmenter import VideoSegmenter
from stmg.streaming.masks import Masking
from stmg.streaming.schedulers import FixedPeriod, Level, Scheduler
from stmg.streaming.settings import Mode

Size = tuple[int, int]
"""(height, width)."""
Kind = Literal[
    "base",
    "online",
    "offline",
    "realtime",
    "paper",
    "copied-labels",
    "warped-logits",
    "half-resolution",
    "other-model",
    "ablation",
]
FAMILIES: Mapping[Kind, str] = {
    "base": "base on every frame",
    "online": "online",
    "offline": "offline",
    "realtime": "realtime",
    "paper": "paper's mode",
    "copied-labels": "last labels copied",
    "warped-logits": "logits warped",
    "half-resolution": "half resolution",
}

EVERY_FRAME: Mapping[str, Any] = {"mode": None, "scheduler": "always-key", "max_change": None, "corrector": "none"}
"""The base network. Nothing is carried, so there is no change to control and nothing to correct."""
PAPER_SETTINGS: Mapping[str, Any] = {
    "mode": "online",
    "scheduler": "paper",
    "motion": "none",
    "max_change": None,
    "corrector": "none",
}
"""The paper's mode: nothing is warped."""


@dataclass(frozen=True, kw_only=True)
class Way:
    """A way to run a stream. Two are equal if all fields except `settings` are, so rows are found by kind and numbers.

    run.row(Way(kind="copied-labels", stride=5)), run.row(replace(ONLINE, runtime="openvino", bits=8))
    """

    kind: Kind
    title: str | None = None
    """The name of an ablation's row."""
    settings: Mapping[str, object] = field(default_factory=dict, compare=False)
    """Settings that differ from the model's own, by name, as in a settings file."""
    budget: float | None = None
    """Drift budget, if it differs from the stream's own."""
    longest: int | None = None
    """Maximum number of frames from one computed frame to the next, if it differs from the stream's own."""
    motion: str | None = None
    """Level of motion, if it differs from the stream's own."""
    size: Size | None = None
    """(H, W) to work at, if it differs from the model's own."""
    stride: int | None = None
    """Frames from one computed frame to the next."""
    intervals: int | None = None
    """For simulated realtime: number of frame intervals that the network takes."""
    model: str | None = None
    """The name of another model."""
    runtime: str | None = None
    """The engine of an export beside the model."""
    bits: int | None = None
    """32, or 8 for INT8, of an export."""
    export: str | None = None
    """The folder of an export, where several have the same engine and bits."""

    @property
    def mode(self) -> Mode:
        """The mode to run in; online for kinds that are not modes."""
        if self.intervals is not None:
            return "realtime"
        return self.kind if self.kind in ("offline", "realtime") else "online"

    @property
    def family(self) -> str:
        """The name without stride, budget and runtime."""
        if self.kind == "ablation":
            return self.title or ""
        if self.intervals is not None:
            return "copied" if self.kind == "copied-labels" else "realtime"
        return FAMILIES.get(self.kind) or f"{self.model} on every frame"

    @property
    def engine(self) -> str:
        """Engine, bits and folder of an export; empty for the model itself."""
        int8, folder = "INT8" if self.bits == 8 else "", f"({self.export})" if self.export else ""
        return " ".join(filter(None, (self.runtime, int8, folder)))

    @property
    def name(self) -> str:
        family = "base" if self.kind == "base" and self.runtime else self.family
        intervals = "" if self.intervals is None else f"{self.intervals} interval{'s' * (self.intervals > 1)}"
        longest = "" if self.longest is None else f"/{self.longest}"
        budget = "" if self.budget is None else f"budget {self.budget:g}{longest}"
        stride = "" if self.stride is None else f"every {self.stride}"
        size = "" if self.size is None else format_size(self.size)
        # Else the title or the fields above have it.
        hidden = self.kind == "ablation" or self.budget is not None or self.motion is not None
        chosen = () if hidden else map(_describe_setting, self.settings.items())
        parts = (family, intervals, budget, stride, *chosen, self.motion, size, self.engine)
        return ", ".join(part for part in parts if part)

    @property
    def reference(self) -> Way:
        """The way that its gain is relative to: the base network on the same runtime."""
        return replace(BASE, runtime=self.runtime, bits=self.bits, export=self.export)


BASE, ONLINE, OFFLINE = Way(kind="base"), Way(kind="online"), Way(kind="offline")


def apply_way(way: Way, segmenter: VideoSegmenter) -> VideoSegmenter:
    """Another segmenter over the same weights, with the settings of a way."""
    if way.kind in ("base", "other-model"):
        options = dict(EVERY_FRAME)
    elif way.kind == "paper":
        options = dict(PAPER_SETTINGS)
    elif way.kind == "copied-labels" and way.stride is not None:
        options = {**EVERY_FRAME, "scheduler": FixedPeriod(way.stride, Level.CARRY), "motion": "none"}
    else:
        options = {}
    return segmenter.another(**(options | read_plain(way.settings, segmenter)))


def read_plain(settings: Mapping[str, object], segmenter: VideoSegmenter) -> dict[str, Any]:
    """Convert plain values to options of `VideoSegmenter.another`. Masks change the segmenter's own."""
    options: dict[str, Any] = dict(settings)
    if isinstance(options.get("masking"), Mapping):
        options["masking"] = replace(segmenter.settings.masking, **options["masking"])
    return options


def plain_scheduler(scheduler: Scheduler) -> dict[str, Any]:
    """A scheduler as plain values: its name and its settings, without infinite ones, which are the default."""
    plain: dict[str, Any] = {"name": scheduler.name}
    if is_dataclass(scheduler):
        own = {item.name: getattr(scheduler, item.name) for item in fields(scheduler)}
        plain |= {name: value for name, value in own.items() if value != math.inf}  # JSON has no infinity
    return plain


def chosen_settings(segmenter: VideoSegmenter, chosen: Mapping[str, Any], mode: Mode) -> dict[str, Any]:
    """Scheduler and motion of a mode, if the user gave them."""
    settings: dict[str, Any] = {}
    if mode != "realtime" and ("scheduler" in chosen or mode in chosen.get("default_schedulers", {})):
        settings["scheduler"] = plain_scheduler(segmenter.settings.scheduler_for(mode))
    if "motion" in chosen:
        settings["motion"] = segmenter.settings.motion.name
    return settings


def describe_settings(segmenter: VideoSegmenter, mode: Mode = "online") -> str:
    """Describe the settings of a stream in a mode, as text."""
    settings, corrector = segmenter.settings, segmenter.settings.corrector
    parts = [f"motion {settings.motion.name}"]
    if mode == "realtime":
        parts.insert(0, "realtime")
    elif mode == "offline":
        parts.insert(0, f"offline {_describe_scheduler(settings.scheduler_for('offline'))}")
    else:
        fusion = segmenter.online.fusion
        parts = [f"scheduler {_describe_scheduler(settings.scheduler_for('online'))}", *parts, f"fusion {fusion:g}"]
        # Wherever there are masks, the paper's mode is measured too.
        with_masks = segmenter.runtime.has_mask_generator
        if settings.partial_scale < 1 and (with_masks or settings.scheduler_for("online").refreshes):
            parts.append(f"partial frames at {settings.partial_scale:g}")
        parts += [f"mask gain {settings.masking.gain:g}"] if with_masks else []
    if corrector is not None and (mode != "offline" or corrector.between):
        parts.append("corrector")
    if settings.max_change is not None:
        parts.append(f"max_change {settings.max_change:g}")
    return ", ".join(parts)


def describe_masking(masking: Masking) -> str:
    """Describe a model's masks; by the paper's name if they are at their defaults."""
    if masking == Masking(seed=masking.seed):
        return "spatial-temporal masking"
    return f"the checkpoint's masks (m_sp {masking.spatial}, pruning {masking.pruning})"


def format_size(size: Size) -> str:
    return f"{size[0]}x{size[1]}"


def _describe_scheduler(scheduler: Scheduler) -> str:
    options: list[str] = [item.name for item in fields(scheduler)] if is_dataclass(scheduler) else []
    chosen = ", ".join(f"{option} {getattr(scheduler, option)}" for option in options)
    return f"{scheduler.name} ({chosen})" if chosen else scheduler.name


def _describe_setting(item: tuple[str, object]) -> str:
    name, value = item
    if isinstance(value, Mapping):
        rest = ", ".join(f"{key} {each}" for key, each in value.items() if key != "name")
        return f"{value.get('name', name)}{f' ({rest})' if rest else ''}"
    return f"{name} {value}"
