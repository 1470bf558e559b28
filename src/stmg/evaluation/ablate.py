"""Ablations: the worth of each part. The paper's tables and ours, over one checkpoint and others trained otherwise."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from stmg.data.catalogue import open_dataset
from stmg.data.dataset import Dataset
from stmg.evaluation.inputs import (
    Model,
    check_classes,
    count_classes,
    load_into_memory,
    open_data,
    open_model,
    read_frames,
    read_source_size,
)
from stmg.evaluation.machine import this_machine
from stmg.evaluation.measure import measure_stream
from stmg.evaluation.meter import Meter, mean_cost
from stmg.evaluation.results import AblationResult, AblationTable
from stmg.evaluation.rows import FrameCost, LevelShare, Row, Timing, percent
from stmg.evaluation.speed import time_interleaved
from stmg.evaluation.streams import Stream, open_way
from stmg.evaluation.way import (
    BASE,
    EVERY_FRAME,
    PAPER_SETTINGS,
    Size,
    Way,
    apply_way,
    describe_masking,
    describe_settings,
)
from stmg.segmenter import VideoSegmenter
from stmg.streaming.schedulers import Level

MASKS = "Pruning and masking (the paper's table 3)"
SCHEDULES = "Scheduling (table 4)"
REUSE = "Feature aggregation (table 6)"
TRAINING = "Trained otherwise (table 7 and ours)"
OURS = "Beyond the paper"
TIMED_FRAMES, TIMED_REPEATS = 50, 3  # used to measure the speeds of table 6
FUSION = 0.5  # fusion in the rows that fuse key frames


class Trial(NamedTuple):
    """One row to measure."""

    table: str
    way: Way
    is_random: bool = False
    """True if measured with several seeds."""
    is_timed: bool = False


def ablate(
    model: Model,
    data: Dataset | str | Path,
    *,
    others: Mapping[str, Model] | None = None,
    seeds: int = 3,
    split: str = "val",
    size: Size | None = None,
    limit: int | None = None,
    name: str | None = None,
    on_row: Callable[[str, int, int], None] | None = None,
) -> AblationResult:
    """Measure every variant that a checkpoint can run, and checkpoints that were trained otherwise.

    others: those checkpoints, by name.

    on_row: called after each row with its name, how many rows are done, and how many there are.

    After Ctrl-C the result has the rows measured so far, and `interrupted` is True.
    """
    found = data if isinstance(data, Dataset) else open_dataset(data)
    subject = open_model(model, size, name, source=None if size else read_source_size(found, split))
    dataset = load_into_memory(open_data(found, split, subject), split, subject.size, limit)
    segmenters: dict[str, VideoSegmenter] = {}
    for label, each in (others or {}).items():
        other = open_model(each, subject.size)
        check_classes(other, count_classes(other), dataset)
        segmenters[label] = other.segmenter
    segmenter = subject.segmenter
    plan = [(segmenter, trial) for trial in list_trials(segmenter)]
    for label, alternative in {"this one": segmenter, **segmenters}.items() if segmenters else ():
        paper = Way(kind="ablation", title=f"{label}, the paper's mode", settings=PAPER_SETTINGS)
        own = Way(kind="ablation", title=f"{label}, its own settings")
        plan += [(alternative, Trial(TRAINING, way)) for way in (paper, own)]

    known: dict[str, list[Meter]] = {}
    base = measure_stream(open_way(BASE, segmenter).stepper, dataset, split, subject.size)
    rows: list[Row] = []
    interrupted = False
    try:
        for number, (each_segmenter, trial) in enumerate(plan, 1):
            key = f"{id(each_segmenter)} {sorted(trial.way.settings.items())}"
            # Only a drift budget can be steered. Switch steering off everywhere, so that rows differ in nothing else.
            unsteered = each_segmenter.another(max_change=None)
            if key not in known:
                steppers = [apply_way(way, unsteered) for way in _vary_seed(trial, seeds)]
                known[key] = [measure_stream(stepper, dataset, split, subject.size) for stepper in steppers]
            settings = describe_settings(apply_way(trial.way, unsteered))
            rows.append(_mean_row(trial.way, known[key], settings))
            if on_row is not None:
                on_row(trial.way.name, number, len(plan))
        rows = _add_speeds(rows, plan, dataset, split, subject.size)
    except KeyboardInterrupt:  # keep the rows that are done
        interrupted = True
    tables = [trial.table for _, trial in plan[: len(rows)]]
    return AblationResult(
        machine=this_machine(),
        model=subject.name,
        interrupted=interrupted,
        data=dataset.name,
        split=split,
        size=subject.size,
        settings=describe_settings(segmenter.another(max_change=None)),
        runtime=segmenter.runtime.description,
        seeds=seeds,
        frames=base.num_frames,
        base=_mean_row(BASE, [base]),
        tables=tuple(
            AblationTable(title, tuple(row for table, row in zip(tables, rows, strict=True) if table == title))
            for title in dict.fromkeys(tables)
        ),
    )


def list_trials(segmenter: VideoSegmenter) -> list[Trial]:
    """The rows to measure for this checkpoint. Most need a mask generator.

    The paper's tables use the paper's mode, in which nothing is warped.
    """
    own = segmenter.settings.masking
    base = _trial(REUSE, "base network", EVERY_FRAME, is_timed=True)
    fused = _trial(OURS, "  with key frames fused", {"fusion": FUSION})
    ours = [
        _trial(OURS, "the checkpoint's own settings", {}),
        _trial(OURS, "  without fusing key frames", {"fusion": 0.0}) if segmenter.settings.fusion else fused,
        _two_levels(Level.CARRY, 3, "none"),
        _two_levels(Level.CARRY, 3, "dis"),
        *(_two_levels(Level.CARRY, period, "dis", FUSION) for period in (3, 4)),
    ]
    if not segmenter.runtime.has_mask_generator:
        return [base, *ours]
    full_scale = _paper_trial(REUSE, "pruned and reused, partial frames at full scale", partial_scale=1.0)
    generated = _paper_trial(MASKS, "m_sp as generated (gain 1)", masking={"gain": 1.0})
    at_random = _paper_trial(MASKS, "random block pruning", masking={"pruning": "random"})
    other_scale = segmenter.settings.partial_scale < 1 and segmenter.runtime.input_size is None  # exports have one size
    return [
        *([at_random._replace(is_random=True)] if segmenter.runtime.fixed_blocks is None else []),
        _paper_trial(MASKS, "random spatial masking", masking={"spatial": "random"})._replace(is_random=True),
        _paper_trial(MASKS, "uniform blending (m_sp = m_avg)", masking={"spatial": "uniform"}),
        _paper_trial(MASKS, "uniform blending (m_sp = 0.5)", masking={"spatial": 0.5}),
        *([generated] if own.spatial == "adaptive" and own.gain != 1 else []),
        _paper_trial(MASKS, describe_masking(own)),
        _paper_trial(SCHEDULES, "distortion-aware (γ = 0.95)"),
        *(
            _paper_trial(
                SCHEDULES, f"distortion-aware (γ = {gamma})", scheduler={"name": "paper", "after_partial": gamma}
            )
            for gamma in (0.9, 0.5)
        ),
        _paper_trial(SCHEDULES, "fixed (R = 2)", scheduler={"name": "fixed", "period": 2}),
        base,
        _paper_trial(REUSE, "per-frame pruning, nothing reused", scheduler="per-frame")._replace(is_timed=True),
        _paper_trial(REUSE, "pruned and reused")._replace(is_timed=True),
        *([full_scale._replace(is_timed=True)] if other_scale else []),
        *ours,
        *(_two_levels(Level.PARTIAL, 3, motion) for motion in ("none", "dis")),
    ]


def _trial(table: str, title: str, settings: Mapping[str, Any], *, is_timed: bool = False) -> Trial:
    return Trial(table, Way(kind="ablation", title=title, settings=settings), is_timed=is_timed)


def _paper_trial(table: str, title: str, **settings: object) -> Trial:
    return _trial(table, title, {**PAPER_SETTINGS, **settings})


def _two_levels(between: Level, period: int, motion: str, fusion: float = 0.0) -> Trial:
    """A key frame every `period` frames; those between are all carried, or all partial."""
    level = "carried" if between is Level.CARRY else between
    name = "DIS" if motion == "dis" else motion
    title = f"two levels, {level} every {period}, " + (f"{name}, fused" if fusion else f"motion {name}")
    scheduler = {"name": "fixed", "period": period, "between": between.value}
    return _trial(OURS, title, {"scheduler": scheduler, "corrector": None, "motion": motion, "fusion": fusion})


def _vary_seed(trial: Trial, seeds: int) -> Iterator[Way]:
    settings: Mapping[str, Any] = trial.way.settings
    for seed in range(seeds if trial.is_random else 1):
        seeded = {"masking": {**settings["masking"], "seed": seed}} if "masking" in settings else {}
        yield replace(trial.way, settings={**settings, **seeded})


def _mean_row(way: Way, runs: Sequence[Meter], settings: str = "") -> Row:
    """The row of a way: means over its seeds."""
    values = [run.counts.mean_iou() for run in runs]
    kept = round(float(np.mean([run.kept_share for run in runs])), 2) if runs[0].kept_shares else None
    return replace(
        runs[0].row(way, settings),
        miou=percent(float(np.mean(values))),
        miou_std=percent(float(np.std(values, ddof=1))) if len(values) > 1 else None,
        seeds=len(values),
        cost=FrameCost.of(mean_cost([run.cost for run in runs])),
        levels=tuple(
            LevelShare(level, round(float(np.mean([run.share(level) for run in runs])), 2)) for level in Level
        ),
        kept_blocks=kept,
    )


def _add_speeds(
    rows: list[Row], plan: list[tuple[VideoSegmenter, Trial]], dataset: Dataset, split: str, size: Size
) -> list[Row]:
    """Add speeds to the rows that are timed, measured in turns. The first of these is the base."""
    streams = [Stream(trial.way, apply_way(trial.way, segmenter)) for segmenter, trial in plan if trial.is_timed]
    frames = [frame for _, frame in read_frames(dataset.videos(split)[0], size, TIMED_FRAMES)]
    times = time_interleaved(streams, frames, TIMED_REPEATS)
    base = times[streams[0].way]
    timings: dict[Way, Timing] = {way: each.relative_to(base) for way, each in times.items()}
    return [replace(row, timing=timings.get(row.way)) for row in rows]
