"""Tune: choose settings for a model, a video and this machine by a goal. One half is to choose by, one to check."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from stmg.errors import SettingsError, VideoError
from stmg.evaluation.inputs import Clip, Subject, open_model, read_clip, read_source_size, takes_size
from stmg.evaluation.machine import this_machine
from stmg.evaluation.results import Goal, TuneResult
from stmg.evaluation.rows import Row
from stmg.evaluation.streams import as_export
from stmg.evaluation.trials import Candidate, Segment, Trials, compute_candidate, measure_flicker
from stmg.evaluation.way import BASE, Size, Way, format_size
from stmg.models.spec import ModelSpec, as_spec
from stmg.streaming.motion import DIS_LEVELS
from stmg.streaming.working_size import MULTIPLE
from stmg.video.addresses import hide_credentials

ONLINE_BUDGETS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.8)
OFFLINE_BUDGETS = ((0.3, 6), (0.6, 12), (1.0, 12), (1.5, 24))  # drift, longest
DEFAULT_GOAL = Goal(max_change=0.025)  # costs less than 1 % of mIoU on CamVid
MIN_GAIN = 1.15  # below this gain, recommend a smaller network instead
SIMPLER_SPEED = 0.9  # recommend the simpler of two ways if it reaches this share of the best speed


class TuneProgress(NamedTuple):
    """Progress of `tune`."""

    what: str
    done: int
    total: int


def tune(
    model: ModelSpec | str | Path,
    source: str | Path,
    goal: Goal = DEFAULT_GOAL,
    *,
    beside: Sequence[str | Path] = (),
    frames: int = 150,
    size: Size | None = None,
    name: str | None = None,
    on_progress: Callable[[TuneProgress], None] | None = None,
) -> TuneResult:
    """Measure modes, budgets and levels of motion on a video, and choose by a goal.

    source: a video, or a dataset, whose labels are used if there are any.
    goal: if it limits loss or change, choose the fastest setting within all limits; otherwise the least change.
    beside: exports of the same model, such as one in INT8, that may replace it.
    name: the name of the model in the result.
    frames: how many frames to use: half of each video to choose by, half to check on.
    size: resize frames to this size. Default: the size at which `segment` computes the video.
    """
    report = on_progress or (lambda progress: None)
    spec = as_spec(model)
    spec = spec if size is None else spec.with_options(size=size)
    first = open_model(spec, name=name, source=None if spec.settings.size else read_source_size(source))
    clip = read_clip(str(source), first.size, frames)
    if goal.max_loss is not None and clip.dataset is None:
        raise SettingsError(f"a limit of mIoU loss needs labels, and {source} has none; limit changed pixels instead")
    tried, checked = split_clip(clip)
    others = [_open_export(spec, each, first.size) for each in beside]
    smaller = first._replace(segmenter=first.segmenter.another(), size=make_smaller(first.size))
    if takes_size(first.segmenter.runtime, smaller.size):
        others.append(smaller)
    candidates: list[Candidate] = []
    for subject in (first, *others):
        what, total = f"{subject.name} on every frame", len(clip.frames)
        candidates.append(compute_candidate(subject, clip, partial(_report_frame, report, what, total)))
    trials = Trials(candidates[0], clip)
    outcomes: list[Row] = []
    labeled = clip.dataset is not None
    ways = [(each, way) for each in candidates for way in list_ways(each.subject, first, goal, trials.rate, labeled)]
    for number, (candidate, way) in enumerate(ways, 1):
        outcomes.append(trials.estimate(candidate, way, tried))
        report(TuneProgress("settings", number, len(ways)))
    best = choose(outcomes, goal)
    check = None
    if best is not None:
        chosen = next(each for each in candidates if each.is_of(best.way, candidates[0]))
        check = trials.measure(chosen, best.way, checked)
    return TuneResult(
        machine=this_machine(),
        model=first.name,
        source=hide_credentials(str(source)),
        size=first.size,
        frames=sum(part.stop - part.start for part in tried),
        checked_frames=sum(part.stop - part.start for part in checked),
        rate=trials.rate,
        runtime=first.segmenter.runtime.description,
        goal=goal,
        flicker=round(measure_flicker(candidates[0], clip, tried), 6),
        outcomes=tuple(outcomes),
        best=best,
        check=check,
        verdict=describe(outcomes, best, goal) + describe_miss(check, goal),
    )


def split_clip(clip: Clip) -> tuple[list[Segment], list[Segment]]:
    """Split each video into a first half to choose by and a second half to check on."""
    starts = [*sorted(clip.starts), len(clip.frames)]
    tried, checked = [], []
    for start, stop in pairwise(starts):
        middle = start + (stop - start + 1) // 2
        tried.append(Segment(start, middle))
        if stop - middle >= 2:
            checked.append(Segment(middle, stop))
    if not checked:
        raise VideoError(
            "tune needs a video of at least four frames: half to choose settings by, half to check them on"
        )
    return tried, checked


def make_smaller(size: Size) -> Size:
    """Scale a size by three quarters, rounded to multiples of 8."""
    height, width = (max(MULTIPLE, round(0.75 * side / MULTIPLE) * MULTIPLE) for side in size)
    return height, width


def list_ways(subject: Subject, first: Subject, goal: Goal, rate: float | None, labeled: bool) -> Iterator[Way]:
    """The ways to try for a model: every frame first, then each mode at each level of motion.

    Offline is left out where latency is limited. Realtime is left out where it is not, or if frames have no rate.
    """
    model = None if subject.name == first.name else subject.name
    base = replace(BASE, model=model, size=None if subject.size == first.size else subject.size)
    yield base
    # The worth of fusion shows only against true labels; against the network's own it counts as a change.
    fusion: dict[str, object] = {} if labeled else {"fusion": 0.0}
    for motion in DIS_LEVELS:
        for budget in ONLINE_BUDGETS:
            settings = {"mode": "online", "scheduler": _drift(budget, 30), "motion": motion, **fusion}
            yield replace(base, kind="online", motion=motion, budget=budget, longest=30, settings=settings)
        if goal.max_latency_ms is None:
            for budget, longest in OFFLINE_BUDGETS:
                settings = {"mode": "offline", "scheduler": _drift(budget, longest), "motion": motion}
                yield replace(base, kind="offline", motion=motion, budget=budget, longest=longest, settings=settings)
        elif rate is not None:
            settings = {"mode": "realtime", "scheduler": None, "motion": motion}
            yield replace(base, kind="realtime", motion=motion, settings=settings)


def choose(outcomes: Sequence[Row], goal: Goal) -> Row | None:
    """Choose the fastest row that reaches the goal, or, if the goal is speed alone, the one that changes least.

    Prefer the network on every frame if it is nearly as fast, because then nothing is carried.
    """
    allowed = [row for row in outcomes if goal.is_met_by(row)]
    alone = [row for row in allowed if row.way.kind == "base"]
    if goal.is_speed_only:
        return min(alone or allowed, key=lambda row: (row.changed, -row.fps), default=None)
    best = max(allowed, key=lambda row: row.fps, default=None)
    simpler = [row for row in alone if best is not None and row.fps >= SIMPLER_SPEED * best.fps]
    return simpler[0] if simpler else best


def describe(outcomes: Sequence[Row], best: Row | None, goal: Goal) -> str:
    """Describe the choice in a sentence or two, and recommend something simpler if that is enough."""
    base = outcomes[0]
    if best is None:
        fastest = max(outcomes, key=lambda row: row.fps)
        return (
            "Use a smaller network, or a smaller frame: no setting reaches the goal. The fastest, "
            f"{fastest.name}, gives {fastest.fps:.1f} FPS with {fastest.changed:.1%} of the pixels changed."
        )
    way = best.way
    figures = f"{best.fps:.1f} FPS ({best.gain:.1f}x) with {best.changed:.1%} of the pixels changed"
    if best is base and goal.is_speed_only:
        return f"The network alone is enough: {base.fps:.1f} FPS on every frame."
    if best is not base and way.kind == "base":
        name = (way.model or "The network") + ("" if way.size is None else f" at {format_size(way.size)}")
        return f"{name} alone is enough: {best.fps:.1f} FPS ({best.gain:.1f}x) on every frame."
    if way.kind == "base" or (best.gain < MIN_GAIN and way.mode != "realtime"):
        return (
            f"Use a smaller network, or a smaller frame: this video needs the network on almost every frame; {figures} "
            "is the best there is."
        )
    return f"Use {best.name}{'' if way.model is None else f', with {way.model}'}: {figures}."


def describe_miss(check: Row | None, goal: Goal) -> str:
    """A sentence if the choice misses the goal on the frames it was checked on; otherwise empty."""
    if check is None or goal.is_met_by(check):
        return ""
    loss = "" if check.loss is None else f" and {check.loss:.1f} % of the mIoU lost"
    figures = f"{check.fps:.1f} FPS ({check.gain:.1f}x) with {check.changed:.1%} of the pixels changed{loss}"
    return f" But on the frames that it was checked on it gave {figures}, which misses the goal: give more frames."


def settings_of(result: TuneResult, spec: ModelSpec | None = None) -> dict[str, object] | None:
    """The chosen settings, as a settings file holds them; None if nothing was chosen.

    The size is left to the model and the video unless another one was chosen or given.

    spec: of the tuned model, whose size, runtime, precision and threads are kept.
    """
    if result.best is None:
        return None
    way = result.best.way
    kept = () if spec is None else ("threads",) if way.model else ("size", "runtime", "precision", "threads")
    same = {} if spec is None else {name: spec.options.get(name) for name in kept}  # an export knows how it runs
    content: dict[str, object] = {
        "mode": way.mode,
        **({"scheduler": {"name": "always-key"}} if way.kind == "base" else way.settings),
        **same,
        **({} if way.size is None else {"size": way.size}),
        "notes": {
            "model": way.model or result.model,
            "video": result.source,
            "promised": _notes(result.best),
            "checked": None if result.check is None else _notes(result.check),
            "machine": str(result.machine),
        },
    }
    return {name: value for name, value in content.items() if value is not None}


def _open_export(spec: ModelSpec, folder: str | Path, size: Size) -> Subject:
    """Open an export at the only size it takes, or else at the size of the model it replaces."""
    subject = open_model(as_export(spec, folder).with_options(size=None))
    return subject._replace(size=subject.segmenter.runtime.input_size or size)


def _drift(budget: float, longest: int) -> dict[str, object]:
    return {"name": "drift", "key_above": budget, "longest": longest}


def _report_frame(report: Callable[[TuneProgress], None], what: str, total: int, done: int) -> None:
    report(TuneProgress(what, done, total))


def _notes(row: Row) -> dict[str, object]:
    latency = None if row.latency is None else row.latency.p95_ms
    figures = {"changed": row.changed, "loss": row.loss, "fps": row.fps, "latency_ms": latency}
    return {name: value for name, value in figures.items() if value is not None}
