"""Schedulers: which level each frame gets. Pure functions: the memory of a stream goes in and comes out."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import ClassVar, NamedTuple

from stmg.errors import SettingsError

WINDOWS_AHEAD = 2  # windows that offline computes while the next one is read


class Level(StrEnum):
    """The part of the network that runs on a frame."""

    KEY = "key"
    """All of it."""
    PARTIAL = "partial"
    """Some blocks, perhaps at a smaller scale; the rest comes from the last computed frame."""
    CARRY = "carry"
    """None of it: the last labels are warped along the motion."""


class Evidence(NamedTuple):
    """The measurements that a scheduler decides by."""

    distortion: float
    """Mean of the spatial mask against the last computed frame."""
    drift: float
    """Distortion since the last key frame, less what partial frames refreshed."""


class Memory(NamedTuple):
    """A scheduler's memory of the frames before."""

    since_key: int = 0
    """Frames since the last key frame; 0 right after one."""
    threshold: float = math.inf
    """Distortion above which the paper's policy calls a key frame."""
    distortion: float = 0.0
    """Distortion of the last frame; 0 if it was computed."""
    expected: float = 0.0
    """Drift at the next frame if it goes on as it went."""


AFTER_FIRST_FRAME = Memory()


class Scheduler(ABC):
    """Decides a frame's level from the evidence.

    It keeps no state: the memory of a stream goes in and comes out, so several streams may share one. The first frame,
    and one after a cut, a gap or a change of size, is a key frame without being decided.

    Derive from it and give an instance as `scheduler`. Only `decide` must be given:

        class EveryTenth(stmg.Scheduler):
            name = "every tenth"

            def decide(self, evidence, memory):
                return stmg.Level.KEY if memory.since_key >= 9 else stmg.Level.CARRY

        segmenter = stmg.VideoSegmenter(network, scheduler=EveryTenth())
    """

    name: ClassVar[str] = "custom"
    """Reason to report for a level."""
    reuses: ClassVar[bool] = True
    """True if frames take anything from the frames before. Otherwise partial frames blend nothing."""

    @property
    def refreshes(self) -> bool:
        """True if there may be partial frames. Otherwise the mask generator does not run."""
        return False

    def foresee(self, memory: Memory) -> bool:
        """True if the next frame is a key frame whatever it shows. Then no motion is estimated for it."""
        return False

    @abstractmethod
    def decide(self, evidence: Evidence, memory: Memory) -> Level:
        """Decide the level of a frame."""

    def remember(self, level: Level, evidence: Evidence, memory: Memory) -> Memory:
        """Update the memory for the next frame. `evidence.distortion` is NaN on a key frame that was foreseen."""
        return Memory(0 if level is Level.KEY else memory.since_key + 1)


@dataclass(frozen=True)
class PaperScheduler(Scheduler):
    """The paper's policy: a key frame where distortion rises above a threshold that follows the last frame's."""

    after_key: float = 2.0
    """γ1: right after a key frame the next one should not be a key frame."""
    after_partial: float = 0.95
    """γ2: after a partial frame the next one should lean towards a key frame."""
    name = "paper"

    @property
    def refreshes(self) -> bool:
        return True

    def decide(self, evidence: Evidence, memory: Memory) -> Level:
        return Level.KEY if evidence.distortion > memory.threshold else Level.PARTIAL

    def remember(self, level: Level, evidence: Evidence, memory: Memory) -> Memory:
        factor = self.after_key if level is Level.KEY else self.after_partial
        return super().remember(level, evidence, memory)._replace(threshold=factor * evidence.distortion)


@dataclass(frozen=True)
class FixedPeriod(Scheduler):
    """A key frame every `period` frames, the level `between` on the others."""

    period: int = 2
    between: Level = Level.PARTIAL
    name = "fixed"

    def __post_init__(self) -> None:
        if self.period < 1 or self.period != int(self.period):
            raise SettingsError(f"the period of key frames is a whole number from 1; got {self.period}")
        if self.between not in set(Level):
            raise SettingsError(f"the level between key frames is one of {', '.join(Level)}; got {self.between!r}")
        object.__setattr__(self, "between", Level(self.between))  # where it was given by its name

    @property
    def refreshes(self) -> bool:
        return self.between is Level.PARTIAL

    def foresee(self, memory: Memory) -> bool:
        return memory.since_key + 1 >= self.period

    def decide(self, evidence: Evidence, memory: Memory) -> Level:
        return Level.KEY if self.foresee(memory) else self.between


@dataclass(frozen=True)
class PerFramePruning(Scheduler):
    """Every frame through the pruned network, nothing reused: the paper's baseline without feature aggregation."""

    name = "per-frame"
    reuses = False

    @property
    def refreshes(self) -> bool:
        return True

    def decide(self, evidence: Evidence, memory: Memory) -> Level:
        return Level.PARTIAL


@dataclass(frozen=True)
class AlwaysKey(Scheduler):
    """The base network on every frame."""

    name = "always-key"
    reuses = False

    def foresee(self, memory: Memory) -> bool:
        return True

    def decide(self, evidence: Evidence, memory: Memory) -> Level:
        return Level.KEY


@dataclass(frozen=True)
class DriftBudget(Scheduler):
    """Carry while little has gone wrong since the last key frame, refresh when some has, start over when much has.

    A key frame is foreseen where the last step, taken once more, would exceed the budget: it needs no motion, then.
    """

    key_above: float = 0.3
    """Drift above which the whole network runs."""
    partial_above: float = math.inf
    """Distortion since the last computed frame at which a partial frame refreshes; infinite: never."""
    longest: int = 30
    """Most frames from one key frame to the next, so that errors which distortion misses do not last."""
    name = "drift"

    def __post_init__(self) -> None:
        if self.key_above < 0 or self.partial_above < 0 or self.longest < 1:
            raise SettingsError(f"a drift budget needs thresholds of 0 or more and longest of 1 or more; got {self}")

    @property
    def refreshes(self) -> bool:
        return self.partial_above < math.inf

    def scale(self, factor: float) -> DriftBudget:
        """Multiply the scheduler's budget."""
        return self if factor == 1 else replace(self, key_above=self.key_above * factor)

    def foresee(self, memory: Memory) -> bool:
        return memory.expected > self.key_above or memory.since_key + 1 >= self.longest

    def decide(self, evidence: Evidence, memory: Memory) -> Level:
        if evidence.drift > self.key_above or self.foresee(memory):
            return Level.KEY
        return Level.PARTIAL if evidence.distortion > self.partial_above else Level.CARRY

    def remember(self, level: Level, evidence: Evidence, memory: Memory) -> Memory:
        counted = super().remember(level, evidence, memory)
        if level is not Level.CARRY:
            return counted
        step = evidence.distortion - memory.distortion
        return counted._replace(distortion=evidence.distortion, expected=evidence.drift + step)


def require_drift_budget(scheduler: Scheduler, role: str = "scheduler") -> DriftBudget:
    """Return the scheduler, or raise if it has no budget that `max_change` can steer."""
    if not isinstance(scheduler, DriftBudget):
        raise SettingsError(f"max_change steers a drift budget, and the {role} {scheduler.name} has none; use drift")
    return scheduler


SCHEDULERS: dict[str, type[Scheduler]] = {
    kind.name: kind for kind in (DriftBudget, PaperScheduler, FixedPeriod, PerFramePruning, AlwaysKey)
}


def make_scheduler(name: str, **options: float | int | str) -> Scheduler:
    """Build a scheduler by its name; `options` are its fields, a level by its name: `period=3, between="carry"`."""
    if name not in SCHEDULERS:
        raise SettingsError(f"no scheduler is called {name!r}; there are {', '.join(SCHEDULERS)}")
    kind = SCHEDULERS[name]
    names = [item.name for item in fields(kind)]  # type: ignore[arg-type]
    for option in options:
        if option not in names:
            allowed = f"it has {', '.join(names)}" if names else "it has none"
            raise SettingsError(f"scheduler {name} has no setting {option!r}; {allowed}")
    if "between" in options:
        if options["between"] not in list(Level):
            raise SettingsError(f"between is one of {', '.join(Level)}; got {options['between']!r}")
        options = {**options, "between": Level(str(options["between"]))}
    for option, value in options.items():
        if option == "between":
            continue
        whole = isinstance(getattr(kind, option, None), int)
        if not isinstance(value, int if whole else int | float) or isinstance(value, bool) or value != value:
            raise SettingsError(f"{option} of scheduler {name} is a {'whole ' * whole}number; got {value!r}")
    return kind(**options)


def scheduler_from_fields(fields: Mapping[str, object]) -> Scheduler:
    """Build a scheduler from its name and its fields, as cards and settings files hold them."""
    options = {name: value for name, value in fields.items() if name != "name"}
    return make_scheduler(str(fields["name"]), **options)  # type: ignore[arg-type]


def limit_delay(scheduler: Scheduler, delay: int) -> Scheduler:
    """Limit the distance between anchors so that no offline result lags by more than `delay` frames.

    A frame waits until its window is read, and `WINDOWS_AHEAD` more that are computed meanwhile.
    """
    longest = (delay + 1) // (WINDOWS_AHEAD + 1)
    if longest < 1:
        raise SettingsError(f"delay is at least {WINDOWS_AHEAD} frames; got {delay}")
    if isinstance(scheduler, DriftBudget):
        return replace(scheduler, longest=min(scheduler.longest, longest))
    if isinstance(scheduler, FixedPeriod):
        return replace(scheduler, period=min(scheduler.period, longest))
    if isinstance(scheduler, AlwaysKey):
        return scheduler
    raise SettingsError(f"delay needs a scheduler of a known longest window: drift or fixed; got {scheduler.name}")
