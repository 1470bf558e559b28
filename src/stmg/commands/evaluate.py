"""stmg evaluate: accuracy of a segmenter beside its base network, as a stream."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console

from stmg.commands.judging import Contest, contest, runtime_line, settings_line
from stmg.commands.progress import INTERRUPTED, progress_bar
from stmg.commands.results import leave
from stmg.evaluation.evaluate import evaluate as judge
from stmg.evaluation.evaluate import paired, percent
from stmg.evaluation.figures import tiles


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
        if paper and not found.interrupted and any(video.labelled for video in videos):
            task = progress.add_task("the paper's protocol", total=None, told="")
            base, ours = paired(segmenter, dataset, asked.split, size, asked.limit)
            pairs = {
                "base_miou": percent(base.counts.mean_iou()),
                "miou": percent(ours.counts.mean_iou()),
                "level": str(next(iter(ours.levels), None)),
                "frames": ours.num_frames,
            }
    if not found.strip:
        return INTERRUPTED
    kept = {"strip.png": (tiles(found.strip, 8), "The first frames: red key, yellow partial, green carried.")}
    if found.masks:
        seen = "spatial mask" if segmenter.asks_masks else "what motion leaves unexplained"
        caption = f"Frame, {seen}, and where the labels of the frame before no longer hold (figures 6 and 12)."
        kept["masks.png"] = (tiles(found.masks, 1), caption)
    told = {
        "model": asked.model,
        "data": f"{dataset.name} {asked.split}",
        "size": list(size),
        "settings": settings_line(segmenter),
        "runtime": runtime_line(segmenter),
        "motion": dict(found.motion),
        "interrupted": found.interrupted,
        "base": found.base.told(dataset.class_names),
        "ours": found.ours.told(dataset.class_names),
        "truth_consistency": percent(found.truth_consistency.mean_iou()),
        "paper_protocol": pairs,
        "frames": found.frames,
    }
    leave("evaluation", told, out, console, kept)
    return INTERRUPTED if found.interrupted else 0
