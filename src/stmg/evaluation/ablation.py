"""Ablations: the paper's four tables, and ours, over one trained checkpoint and others trained otherwise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from stmg.data.dataset import Dataset
from stmg.data.video_file import VideoFile
from stmg.evaluation.evaluate import percent
from stmg.evaluation.speed import race
from stmg.evaluation.stream import Stepper, StreamFigures, frames_of, kept_in_memory, stream_figures
from stmg.frames import Frame
from stmg.masking import Masking
from stmg.scheduler import (
    AlwaysKey,
    DriftBudget,
    FixedPeriod,
    Level,
    PaperScheduler,
    PerFramePruning,
)
from stmg.segmenter import VideoSegmenter

MASKS = "Pruning and masking (the paper's table 3)"
SCHEDULES = "Scheduling (table 4)"
REUSE = "Feature aggregation (table 6)"
OTHERS = "Trained otherwise (table 7 and ours)"
OURS = "Beyond the paper"
PAPERS_MODE: dict[str, Any] = {"scheduler": PaperScheduler(), "motion": "none"}
FUSION = 0.5  # where key frames are fused
TIMED = 50  # frames over which speeds are measured


@dataclass(frozen=True)
class Row:
    """A setting to try; with seeds where something is drawn."""

    table: str
    name: str
    settings: dict[str, Any]
    drawn: bool = False


def rows_for(segmenter: VideoSegmenter, coded: bool = False) -> list[Row]:
    """What can be tried with this checkpoint: without a mask generator, only what needs none.

    `coded` says that the video has motion vectors. The paper's tables are in the paper's mode: nothing is moved.
    """
    paper = PAPERS_MODE
    whole = Row(REUSE, "base network", {"scheduler": AlwaysKey()})
    fused = Row(OURS, "  with key frames fused", {"fusion": FUSION})
    ours = [
        Row(OURS, "as the checkpoint says", {}),
        Row(OURS, "  without fusing key frames", {"fusion": 0.0}) if segmenter.fusion else fused,
        Row(OURS, "two levels, carried every 3, motion none", _carried(3, motion="none")),
        Row(OURS, "two levels, carried every 3, motion DIS", _carried(3, motion="dis", fusion=0.0)),
        Row(OURS, "two levels, carried every 3, DIS, fused", _carried(3, motion="dis", fusion=FUSION)),
        Row(OURS, "two levels, carried every 4, DIS, fused", _carried(4, motion="dis", fusion=FUSION)),
    ]
    if coded:
        ours.append(Row(OURS, "two levels, carried every 3, codec's motion", _carried(3, motion="codec", fusion=0.0)))
    if not segmenter.runtime.has_mask_generator:
        return [whole, *ours]
    budget = segmenter.scheduler if isinstance(segmenter.scheduler, DriftBudget) else DriftBudget()
    three = replace(budget, partial_above=budget.key_above / 2)
    small = segmenter.partial_scale < 1 and not hasattr(segmenter.runtime, "engine")  # an export has one scale
    whole_scale = Row(REUSE, "pruned and reused, partial frames at full scale", {**paper, "partial_scale": 1.0})
    return [
        Row(MASKS, "random block pruning", {**paper, "masking": Masking(pruning="random")}, drawn=True),
        Row(MASKS, "random spatial masking", {**paper, "masking": Masking(spatial="random")}, drawn=True),
        Row(MASKS, "uniform blending (m_sp = m_avg)", {**paper, "masking": Masking(spatial="uniform")}),
        Row(MASKS, "uniform blending (m_sp = 0.5)", {**paper, "masking": Masking(spatial=0.5)}),
        Row(MASKS, "spatial-temporal masking", paper),
        Row(SCHEDULES, "distortion-aware (γ = 0.95)", paper),
        Row(SCHEDULES, "distortion-aware (γ = 0.9)", {**paper, "scheduler": PaperScheduler(after_partial=0.9)}),
        Row(SCHEDULES, "distortion-aware (γ = 0.5)", {**paper, "scheduler": PaperScheduler(after_partial=0.5)}),
        Row(SCHEDULES, "fixed (R = 2)", {**paper, "scheduler": FixedPeriod(2)}),
        whole,
        Row(REUSE, "per-frame pruning, nothing reused", {**paper, "scheduler": PerFramePruning()}),
        Row(REUSE, "pruned and reused", paper),
        *([whole_scale] if small else []),
        *ours,
        Row(OURS, "two levels, partial every 3, motion none", _partial(3, motion="none")),
        Row(OURS, "two levels, partial every 3, motion DIS", _partial(3, motion="dis")),
        Row(OURS, "three levels, drift budget", {"scheduler": three, "motion": "dis"}),
    ]


def ablate(
    make: Callable[..., VideoSegmenter],
    others: dict[str, Callable[..., VideoSegmenter]],
    dataset: Dataset,
    split: str,
    size: tuple[int, int],
    seeds: int,
    limit: int | None = None,
    advance: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Figures by table; `make` gives a segmenter for settings, `others` those of checkpoints trained otherwise."""
    kept = kept_in_memory(dataset, split, size, limit)
    coded = any(isinstance(video, VideoFile) for video in dataset.videos(split))
    tables: dict[str, list[dict[str, Any]]] = {}
    base = stream_figures(make(scheduler=AlwaysKey()), kept, split, size)
    known: dict[str, list[StreamFigures]] = {}
    told = {"base": _told("base", [base]), "frames": base.num_frames, "tables": tables, "interrupted": False}

    def measured(row: Row, maker: Callable[..., VideoSegmenter], key: str) -> None:
        if key not in known:
            known[key] = [stream_figures(maker(**each), kept, split, size) for each in _draws(row, seeds)]
        tables.setdefault(row.table, []).append(_told(row.name, known[key]))
        if advance is not None:
            advance(row.name)

    try:
        rows = rows_for(make(), coded)
        for row in rows:
            measured(row, make, repr(row.settings))
        frames = [frame for _, frame in frames_of(kept.videos(split)[0], size, TIMED)]
        _timed(tables[REUSE], {row.name: make(**row.settings) for row in rows if row.table == REUSE}, frames)
        for name, maker in {"this one": make, **others}.items() if others else ():
            measured(Row(OTHERS, f"{name}, the paper's mode", PAPERS_MODE), maker, f"{name} paper")
            measured(Row(OTHERS, f"{name}, as it says", {}), maker, f"{name} own")
    except KeyboardInterrupt:  # the rows that are done are worth having
        told["interrupted"] = True
    return told


def _timed(table: list[dict[str, Any]], steppers: dict[str, Stepper], frames: list[Frame]) -> None:
    """Add speeds to a table, measured in turns."""
    times = race(steppers, frames, repeats=3)
    base = times["base network"]
    for row in table:
        told = times[row["name"]].told(base)
        row |= {"fps": told["fps"], "gain": told["gain"]}


def count_rows(segmenter: VideoSegmenter, others: int) -> int:
    """How many rows the tables will have, those of coded video left out."""
    return len(rows_for(segmenter)) + (2 * (others + 1) if others else 0)


def _draws(row: Row, seeds: int) -> Iterator[dict[str, Any]]:
    for seed in range(seeds if row.drawn else 1):
        settings = dict(row.settings)
        if "masking" in settings:
            settings["masking"] = replace(settings["masking"], seed=seed)
        yield settings


def _told(name: str, runs: list[StreamFigures]) -> dict[str, Any]:
    values = [run.counts.mean_iou() for run in runs]
    costs = [run.cost for run in runs]
    counted = None not in costs
    return {
        "name": name,
        "miou": percent(float(np.mean(values))),
        "deviation": percent(float(np.std(values, ddof=1))) if len(values) > 1 else None,
        "seeds": len(values),
        "macs": round(float(np.mean([cost.macs for cost in costs if cost]))) if counted else None,
        "params": round(float(np.mean([cost.params for cost in costs if cost]))) if counted else None,
        "key": round(float(np.mean([run.share(Level.KEY) for run in runs])), 2),
        "kept": None if not runs[0].kept else round(float(np.mean([run.kept_share for run in runs])), 2),
    }


def _carried(period: int, **settings: Any) -> dict[str, Any]:
    return {"scheduler": FixedPeriod(period, Level.CARRY), **settings}


def _partial(period: int, **settings: Any) -> dict[str, Any]:
    return {"scheduler": FixedPeriod(period), "fusion": 0.0, **settings}
