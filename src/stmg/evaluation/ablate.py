"""Ablations: what each part is worth. The paper's tables and ours, over one checkpoint and others trained otherwise."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from stmg.data.dataset import Dataset
from stmg.evaluation.inputs import (
    EVERY_FRAME,
    PAPER_SETTINGS,
    Model,
    check_classes,
    count_classes,
    describe_settings,
    open_data,
    open_model,
)
from stmg.evaluation.machine import this_machine
from stmg.evaluation.measuring.speed import time_interleaved
from stmg.evaluation.measuring.streams import StreamFigures, load_into_memory, mean_cost, read_frames, stream_figures
from stmg.evaluation.results import AblationResult, AblationRow, AblationTable, FrameCost, Size, percent
from stmg.segmenter import VideoSegmenter
from stmg.streaming.masks import Masking
from stmg.streaming.schedulers import FixedPeriod, Level, PaperScheduler, PerFramePruning

MASKS = "Pruning and masking (the paper's table 3)"
SCHEDULES = "Scheduling (table 4)"
REUSE = "Feature aggregation (table 6)"
TRAINING = "Trained otherwise (table 7 and ours)"
OURS = "Beyond the paper"
TIMED_FRAMES, TIMED_REPEATS = 50, 3  # over which the speeds of table 6 are measured
FUSION = 0.5  # where key frames are fused

Settings = Mapping[str, object]
"""Options of `VideoSegmenter.another`."""


@dataclass(frozen=True)
class Setting:
    """A row to measure: with several seeds where something is random, with its speed if `timed`."""

    table: str
    name: str
    settings: Settings
    random: bool = False
    timed: bool = False


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
    """Every setting that can be tried with a checkpoint, and others that were trained otherwise, by name.

    on_row: called with the name of each row that is done, how many are, and how many there are.

    After Ctrl-C the result has the rows until then, and `interrupted` is True.
    """
    subject = open_model(model, size, name)
    opened = open_data(data, split, subject)
    dataset = load_into_memory(opened, split, subject.size, limit)
    alternatives: dict[str, VideoSegmenter] = {}
    for label, each in (others or {}).items():
        other = open_model(each, subject.size)
        check_classes(other, count_classes(other), dataset)
        alternatives[label] = other.segmenter
    segmenter = subject.segmenter
    plan = [(segmenter, setting) for setting in list_settings(segmenter)]
    for label, alternative in {"this one": segmenter, **alternatives}.items() if alternatives else ():
        plan.append((alternative, Setting(TRAINING, f"{label}, the paper's mode", PAPER_SETTINGS)))
        plan.append((alternative, Setting(TRAINING, f"{label}, its own settings", {})))

    known: dict[Hashable, list[StreamFigures]] = {}
    base = stream_figures(segmenter.another(**EVERY_FRAME), dataset, split, subject.size)
    rows: list[tuple[str, AblationRow]] = []
    interrupted = False
    try:
        for number, (each_segmenter, setting) in enumerate(plan, 1):
            key = (id(each_segmenter), frozenset(setting.settings.items()))
            if key not in known:
                # Only a drift budget can be steered, and rows are to differ in nothing else.
                streams = (each_segmenter.another(**{"max_change": None, **o}) for o in _seeded(setting, seeds))
                known[key] = [stream_figures(stream, dataset, split, subject.size) for stream in streams]
            rows.append((setting.table, _summarize(setting.name, known[key])))
            if on_row is not None:
                on_row(setting.name, number, len(plan))
        rows = _add_speeds(rows, plan, dataset, split, subject.size)
    except KeyboardInterrupt:  # the rows that are done are worth having
        interrupted = True
    tables = dict.fromkeys(table for table, _ in rows)
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
        base=_summarize("base network", [base]),
        tables=tuple(AblationTable(title, tuple(row for table, row in rows if table == title)) for title in tables),
    )


def list_settings(segmenter: VideoSegmenter) -> list[Setting]:
    """What can be tried with this checkpoint: without a mask generator, only what needs none.

    The paper's tables are in the paper's mode: nothing is warped.
    """
    paper, own = PAPER_SETTINGS, segmenter.settings.masking
    base = Setting(REUSE, "base network", EVERY_FRAME, timed=True)
    fused = Setting(OURS, "  with key frames fused", {"fusion": FUSION})
    ours = [
        Setting(OURS, "the checkpoint's own settings", {}),
        Setting(OURS, "  without fusing key frames", {"fusion": 0.0}) if segmenter.settings.fusion else fused,
        Setting(OURS, "two levels, carried every 3, motion none", _carried(3, motion="none")),
        Setting(OURS, "two levels, carried every 3, motion DIS", _carried(3, motion="dis", fusion=0.0)),
        Setting(OURS, "two levels, carried every 3, DIS, fused", _carried(3, motion="dis", fusion=FUSION)),
        Setting(OURS, "two levels, carried every 4, DIS, fused", _carried(4, motion="dis", fusion=FUSION)),
    ]
    if not segmenter.runtime.has_mask_generator:
        return [base, *ours]
    full_scale = Setting(
        REUSE, "pruned and reused, partial frames at full scale", {**paper, "partial_scale": 1.0}, timed=True
    )
    generated = Setting(MASKS, "m_sp as generated (gain 1)", {**paper, "masking": replace(own, gain=1.0)})
    other_scale = segmenter.settings.partial_scale < 1 and segmenter.runtime.input_size is None  # an export has one
    return [
        Setting(MASKS, "random block pruning", {**paper, "masking": replace(own, pruning="random")}, random=True),
        Setting(MASKS, "random spatial masking", {**paper, "masking": replace(own, spatial="random")}, random=True),
        Setting(MASKS, "uniform blending (m_sp = m_avg)", {**paper, "masking": replace(own, spatial="uniform")}),
        Setting(MASKS, "uniform blending (m_sp = 0.5)", {**paper, "masking": replace(own, spatial=0.5)}),
        *([generated] if own.spatial == "adaptive" and own.gain != 1 else []),
        Setting(MASKS, _describe_masking(own), paper),
        Setting(SCHEDULES, "distortion-aware (γ = 0.95)", paper),
        Setting(SCHEDULES, "distortion-aware (γ = 0.9)", {**paper, "scheduler": PaperScheduler(after_partial=0.9)}),
        Setting(SCHEDULES, "distortion-aware (γ = 0.5)", {**paper, "scheduler": PaperScheduler(after_partial=0.5)}),
        Setting(SCHEDULES, "fixed (R = 2)", {**paper, "scheduler": FixedPeriod(2)}),
        base,
        Setting(REUSE, "per-frame pruning, nothing reused", {**paper, "scheduler": PerFramePruning()}, timed=True),
        Setting(REUSE, "pruned and reused", paper, timed=True),
        *([full_scale] if other_scale else []),
        *ours,
        Setting(OURS, "two levels, partial every 3, motion none", _partial(3, motion="none")),
        Setting(OURS, "two levels, partial every 3, motion DIS", _partial(3, motion="dis")),
    ]


def _describe_masking(masking: Masking) -> str:
    """A checkpoint's own masks: the paper's table calls them what they are where nothing of them is set."""
    if masking == Masking(seed=masking.seed):
        return "spatial-temporal masking"
    return f"the checkpoint's masks (m_sp {masking.spatial}, pruning {masking.pruning})"


def _add_speeds(
    rows: list[tuple[str, AblationRow]],
    plan: list[tuple[VideoSegmenter, Setting]],
    dataset: Dataset,
    split: str,
    size: Size,
) -> list[tuple[str, AblationRow]]:
    """The rows of `plan` with speeds where they are wanted, measured in turns; the first that is timed is the base."""
    steppers = {
        index: segmenter.another(**setting.settings) for index, (segmenter, setting) in enumerate(plan) if setting.timed
    }
    frames = [frame for _, frame in read_frames(dataset.videos(split)[0], size, TIMED_FRAMES)]
    times = time_interleaved(steppers, frames, TIMED_REPEATS)
    base = times[min(times)]
    timed = list(rows)
    for index, each in times.items():
        timing = each.relative_to(base)
        table, row = rows[index]
        timed[index] = (table, replace(row, fps=timing.fps, gain=timing.gain))
    return timed


def _seeded(setting: Setting, seeds: int) -> Iterator[Settings]:
    masking = setting.settings.get("masking")
    for seed in range(seeds if setting.random else 1):
        seeded = {"masking": replace(masking, seed=seed)} if isinstance(masking, Masking) else {}
        yield {**setting.settings, **seeded}


def _summarize(name: str, runs: list[StreamFigures]) -> AblationRow:
    """Means over the seeds."""
    values = [run.counts.mean_iou() for run in runs]
    return AblationRow(
        name=name,
        miou=percent(float(np.mean(values))),
        miou_std=percent(float(np.std(values, ddof=1))) if len(values) > 1 else None,
        seeds=len(values),
        cost=FrameCost.of(mean_cost([run.cost for run in runs])),
        key_share=round(float(np.mean([run.share(Level.KEY) for run in runs])), 2),
        kept_blocks=round(float(np.mean([run.kept_share for run in runs])), 2) if runs[0].kept_shares else None,
    )


def _carried(period: int, **settings: object) -> Settings:
    return {"scheduler": FixedPeriod(period, Level.CARRY), "corrector": None, **settings}


def _partial(period: int, **settings: object) -> Settings:
    return {"scheduler": FixedPeriod(period), "fusion": 0.0, "corrector": None, **settings}
