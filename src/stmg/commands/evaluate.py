"""stmg evaluate: accuracy of a segmenter beside its base network, as a stream."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

from rich.console import Console

from stmg.commands.judging import Contest, contest
from stmg.commands.progress import progress_bar
from stmg.commands.results import leave
from stmg.evaluation.evaluate import evaluate as judge
from stmg.evaluation.evaluate import paired, percent
from stmg.evaluation.figures import tiles
from stmg.segmenter import VideoSegmenter


def evaluate(model: dict[str, Any], asked: Contest, paper: bool, out: Path, console: Console) -> int:
    """Judge a model on a dataset or on unlabelled videos; figures, tables and pictures in `out`."""
    segmenter, dataset, size = contest(model, asked)
    videos = dataset.videos(asked.split)
    with progress_bar(console) as progress:
        total = sum(min(len(video), asked.limit or len(video)) for video in videos)
        task = progress.add_task("the base network and stmg", total=total, told="")
        found = judge(
            segmenter,
            dataset,
            asked.split,
            size,
            asked.limit,
            lambda result: progress.update(task, advance=1, told=str(result.level)),
        )
        pairs = None
        if paper and any(video.labelled for video in videos):
            task = progress.add_task("the paper's protocol", total=None, told="")
            figures = paired(segmenter, dataset, asked.split, size, asked.limit)
            level = next(iter(figures.levels), None)
            pairs = {"miou": percent(figures.counts.mean_iou()), "level": str(level)}
    kept = {"strip.png": (tiles(found.strip, 8), "The first frames: red key, yellow partial, green carried.")}
    if found.masks:
        caption = "Frame, spatial mask, and where the labels of the frame before no longer hold (figures 6 and 12)."
        kept["masks.png"] = (tiles(found.masks, 1), caption)
    told = {
        "model": asked.model,
        "data": f"{dataset.name} {asked.split}",
        "size": list(size),
        "settings": settings_line(segmenter),
        "base": found.base.told(dataset.class_names),
        "ours": found.ours.told(dataset.class_names),
        "truth_consistency": percent(found.truth_consistency.mean_iou()),
        "paper_protocol": pairs,
        "frames": found.frames,
    }
    leave("evaluation", told, out, console, kept)
    return 0


def settings_line(segmenter: VideoSegmenter) -> str:
    """How a segmenter decides, in words."""
    scheduler: Any = segmenter.scheduler
    chosen = ", ".join(f"{item.name} {getattr(scheduler, item.name)}" for item in fields(scheduler))
    motion = type(segmenter.motion).__name__.removesuffix("Motion").lower()
    scale = f", partial frames at {segmenter.partial_scale:g}" if segmenter.partial_scale < 1 else ""
    return f"scheduler {scheduler.name} ({chosen}), motion {motion}, fusion {segmenter.fusion:g}{scale}"
