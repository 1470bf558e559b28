"""Tune: settings for a model on a video and this machine, from a goal; chosen on one half, checked on the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from stmg.errors import SettingsError, VideoError
from stmg.evaluation.entries import as_export
from stmg.evaluation.inputs import Subject, fit_video, open_model, takes_size
from stmg.evaluation.machine import this_machine
from stmg.evaluation.measuring.clip import Clip, read_clip
from stmg.evaluation.results import Goal, Size, TuneOutcome, TuneResult, TuneSetting
from stmg.evaluation.trials import Segment, Trials, compute_candidate, measure_flicker, scheduler_of
from stmg.models.spec import ModelSpec, as_spec, scheduler_fields
from stmg.streaming.motion import DIS_LEVELS
from stmg.streaming.working_size import MULTIPLE
from stmg.video.addresses import hide_credentials

ONLINE_BUDGETS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.8)
OFFLINE_BUDGETS = ((0.3, 6), (0.6, 12), (1.0, 12), (1.5, 24))  # drift, longest
DEFAULT_GOAL = Goal(max_change=0.025)  # which cost less than 1 % of mIoU on CamVid
WORTH_IT = 1.15  # the gain below which a smaller network is the better advice
ENOUGH = 0.9  # of the best speed, at which the simpler of two ways is the better advice


class Progress(NamedTuple):
    """How far it is."""

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
    on_progress: Callable[[Progress], None] | None = None,
) -> TuneResult:
    """Measure modes, budgets and levels of motion on a video, and choose by a goal.

    source: a video, or a dataset; where its frames have labels, they count.
    goal: if it limits loss or change, the fastest setting within all limits is chosen; else the one that changes least.
    beside: exports of the same model, such as one in INT8, that may take its place.
    name: what results call the model.
    frames: how many to look at: half of each video to choose, the other half to check.
    size: that frames are resized to; if None the model's own, in the shape of a larger video.
    """
    tell = on_progress or (lambda progress: None)
    spec = as_spec(model)
    spec = spec if size is None else spec.with_options(size=size)
    first = open_model(spec, name=name)
    if spec.settings.size is None:
        first = fit_video(first, str(source))
    clip = read_clip(str(source), first.size, frames)
    if goal.max_loss is not None and clip.dataset is None:
        raise SettingsError(f"a goal of lost mIoU needs labels, and {source} has none; give one of changed pixels")
    tried, checked = split_clip(clip)
    others = [open_model(as_export(spec, name).with_options(size=first.size)) for name in beside]
    smaller = first._replace(segmenter=first.segmenter.another(), size=make_smaller(first.size))
    if takes_size(first.segmenter.runtime, smaller.size):
        others.append(smaller)
    candidates = []
    for subject in (first, *others):
        what, total = f"{subject.name} on every frame", len(clip.frames)
        on_frame = partial(_tell, tell, what, total)
        candidates.append(compute_candidate(subject, clip, on_frame))
    trials = Trials(candidates[0], clip)
    outcomes: list[TuneOutcome] = []
    settings = [
        (each, setting) for each in candidates for setting in list_settings(each.subject, first.size, goal, trials.rate)
    ]
    for number, (candidate, setting) in enumerate(settings):
        outcomes.append(trials.estimate(candidate, setting, tried))
        tell(Progress("settings", number + 1, len(settings)))
    best = choose(outcomes, goal)
    check = None
    if best is not None:
        size, model_name = best.setting.size or first.size, best.setting.model
        chosen = next(each for each in candidates if (each.subject.name, each.subject.size) == (model_name, size))
        check = trials.measure(chosen, best.setting, checked)
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
    """The first half of each video, to choose by, and the second half, to check on."""
    starts = [*sorted(clip.starts), len(clip.frames)]
    tried, checked = [], []
    for start, stop in pairwise(starts):
        middle = start + (stop - start + 1) // 2
        tried.append(Segment(start, middle))
        if stop - middle >= 2:
            checked.append(Segment(middle, stop))
    if not checked:
        raise VideoError("a video of at least four frames is needed: half to choose settings by, half to check them on")
    return tried, checked


def make_smaller(size: Size) -> Size:
    """Three quarters of a size, in multiples of 8."""
    height, width = (max(MULTIPLE, round(0.75 * side / MULTIPLE) * MULTIPLE) for side in size)
    return height, width


def list_settings(subject: Subject, own: Size, goal: Goal, rate: float | None) -> Iterator[TuneSetting]:
    """What is tried for a model: every frame first, then each mode at each level of motion.

    own: the size of the first model. Offline is left out where latency matters, and realtime where it does not, or
    where frames have no rate.
    """
    setting = partial(TuneSetting, model=subject.name, size=None if subject.size == own else subject.size)
    yield setting(mode="every frame")
    for motion in DIS_LEVELS:
        for budget in ONLINE_BUDGETS:
            yield setting(mode="online", motion=motion, budget=budget, longest=30)
        if goal.max_latency_ms is None:
            for budget, longest in OFFLINE_BUDGETS:
                yield setting(mode="offline", motion=motion, budget=budget, longest=longest)
        elif rate is not None:
            yield setting(mode="realtime", motion=motion)


def choose(outcomes: Sequence[TuneOutcome], goal: Goal) -> TuneOutcome | None:
    """The fastest that reaches the goal, or, if the goal is speed alone, the one that changes least.

    A network on every frame is chosen where it is nearly as fast: nothing is carried then.
    """
    allowed = [outcome for outcome in outcomes if outcome.meets(goal)]
    alone = [outcome for outcome in allowed if outcome.setting.mode == "every frame"]
    if goal.max_loss is None and goal.max_change is None:
        return min(alone or allowed, key=lambda outcome: (outcome.changed, -outcome.fps), default=None)
    best = max(allowed, key=lambda outcome: outcome.fps, default=None)
    simpler = [outcome for outcome in alone if best is not None and outcome.fps >= ENOUGH * best.fps]
    return simpler[0] if simpler else best


def describe(outcomes: Sequence[TuneOutcome], best: TuneOutcome | None, goal: Goal) -> str:
    """The choice in a sentence or two, and whether something simpler would do."""
    base = outcomes[0]
    if best is None:
        fastest = max(outcomes, key=lambda outcome: outcome.fps)
        return (
            "Use a smaller network, or a smaller frame: no setting reaches the goal. The fastest, "
            f"{fastest.setting}, gives {fastest.fps:.1f} FPS with {fastest.changed:.1%} of the pixels changed."
        )
    same = best.setting.model == base.setting.model
    figures = f"{best.fps:.1f} FPS ({best.gain:.1f}x) with {best.changed:.1%} of the pixels changed"
    speed_only = goal.max_loss is None and goal.max_change is None
    if best is base and speed_only:
        return f"The network alone is enough: {base.fps:.1f} FPS on every frame."
    if best is not base and best.setting.mode == "every frame":
        name = best.setting.model + ("" if best.setting.size is None else f" at {_format_size(best.setting.size)}")
        return f"{name} alone is enough: {best.fps:.1f} FPS ({best.gain:.1f}x) on every frame."
    if best.setting.mode == "every frame" or (best.gain < WORTH_IT and best.setting.mode != "realtime"):
        return (
            f"Use a smaller network, or a smaller frame: this video needs the network on almost every frame; {figures} "
            "is the best there is."
        )
    return f"Use {best.setting}{'' if same else f', with {best.setting.model}'}: {figures}."


def describe_miss(check: TuneOutcome | None, goal: Goal) -> str:
    """A sentence for a choice that misses the goal on the frames it was checked on; nothing for one that holds."""
    if check is None or check.meets(goal):
        return ""
    loss = "" if check.loss is None else f" and {check.loss:.1f} % of the mIoU lost"
    figures = f"{check.fps:.1f} FPS ({check.gain:.1f}x) with {check.changed:.1%} of the pixels changed{loss}"
    return f" But on the frames that it was checked on it gave {figures}, which misses the goal: give more frames."


def settings_of(result: TuneResult, spec: ModelSpec | None = None) -> dict[str, object] | None:
    """What `--settings` takes; None if nothing was chosen.

    spec: of the model that was tuned, whose runtime, precision and threads are kept.
    """
    if result.best is None:
        return None
    setting = result.best.setting
    same = spec if setting.model == result.model else None  # an export runs as it says itself
    scheduler = scheduler_fields(scheduler_of(setting))
    notes: dict[str, object] = {
        "model": setting.model,
        "video": result.source,
        "promised": _notes(result.best),
        "checked": None if result.check is None else _notes(result.check),
        "machine": str(result.machine),
    }
    content = {
        "mode": "online" if setting.mode == "every frame" else setting.mode,
        "scheduler": None if setting.mode == "realtime" else scheduler,
        "motion": setting.motion,
        "fusion": 0.0 if setting.mode == "online" and result.best.miou is None else None,
        "size": setting.size or result.size,
        "runtime": None if same is None else same.options.get("runtime"),
        "precision": None if same is None else same.options.get("precision"),
        "threads": None if spec is None else spec.options.get("threads"),
        "notes": notes,
    }
    return {name: value for name, value in content.items() if value is not None}


def _tell(tell: Callable[[Progress], None], what: str, total: int, done: int) -> None:
    tell(Progress(what, done, total))


def _format_size(size: Size) -> str:
    return f"{size[0]}x{size[1]}"


def _notes(outcome: TuneOutcome) -> dict[str, object]:
    figures = {"changed": outcome.changed, "loss": outcome.loss, "fps": outcome.fps, "latency_ms": outcome.latency_ms}
    return {name: value for name, value in figures.items() if value is not None}
