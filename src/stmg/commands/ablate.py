"""stmg ablate: what each part is worth, in the paper's layout."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console

from stmg.commands.judging import Contest, check_classes, contest, num_classes, runtime_line, settings_line
from stmg.commands.progress import INTERRUPTED, progress_bar
from stmg.commands.results import leave
from stmg.commands.segmenters import segmenter_for
from stmg.evaluation.ablation import ablate as measure
from stmg.evaluation.ablation import count_rows
from stmg.segmenter import VideoSegmenter


def ablate(model: dict[str, Any], asked: Contest, also: list[str], seeds: int, out: Path, console: Console) -> int:
    """Every row of the tables for a checkpoint; `also` names others, trained otherwise, as NAME=CHECKPOINT."""
    segmenter, dataset, size = contest(model, asked)
    others: dict[str, Callable[..., VideoSegmenter]] = {}
    for entry in also:
        name, equals, checkpoint = entry.partition("=")
        if not equals:
            raise ValueError(f"{entry!r} names no other checkpoint; it looks like 'one weight set=runs/one/last'")
        other = segmenter_for(checkpoint, size=size, **model)
        check_classes(checkpoint, other, num_classes(other, size), dataset)
        others[name] = other.another
    with progress_bar(console) as progress:
        rows = count_rows(segmenter, len(others))
        task = progress.add_task("ablations", total=rows, told="reading")
        found = measure(
            segmenter.another,
            others,
            dataset,
            asked.split,
            size,
            seeds,
            asked.limit,
            lambda name: progress.update(task, advance=1, told=name),
        )
    told = {
        "model": asked.model,
        "data": f"{dataset.name} {asked.split}",
        "size": list(size),
        "settings": settings_line(segmenter),
        "runtime": runtime_line(segmenter),
        "seeds": seeds,
        **found,
    }
    leave("ablation", told, out, console)
    return INTERRUPTED if found["interrupted"] else 0
