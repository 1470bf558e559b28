"""stmg profile: before any training, how much of this video repeats and what that is worth on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console

from stmg.commands.judging import num_classes
from stmg.commands.progress import progress_bar
from stmg.commands.results import leave
from stmg.commands.segmenters import segmenter_for
from stmg.evaluation.profile import profile as look
from stmg.video import open_video


def profile(
    model: dict[str, Any],
    name: str,
    source: str,
    size: tuple[int, int] | None,
    frames: int,
    most_changed: float,
    out: Path,
    console: Console,
) -> int:
    """Look at the first frames of a video, play every drift budget over them, and say what to expect."""
    with open_video(source, resize=size, limit=frames) as video, progress_bar(console) as progress:
        seen = size or video.size or (360, 480)
        segmenter = segmenter_for(name, size=seen, **model)
        total = min(frames, video.num_frames) if video.num_frames else frames
        task = progress.add_task("the network on every frame", total=total, told="")
        found = look(video, segmenter, num_classes(segmenter, seen), lambda: progress.advance(task))
        progress.update(task, told="then every drift budget")
    chance = found.chosen(most_changed)
    told = {
        "model": name,
        "source": Path(source).name,
        "size": list(seen),
        "frames": len(found.distortion),
        "cuts": found.cuts,
        "base_ms": round(found.base_ms, 3),
        "carry_ms": round(found.carry_ms, 3) if found.carry_ms == found.carry_ms else None,
        "distortion": [round(value, 5) for value in found.distortion],
        "chances": [
            {
                "budget": each.budget,
                "key_share": round(each.key_share, 5),
                "changed": round(each.changed, 6),
                "speed_up": round(each.speed_up, 4),
            }
            for each in found.chances
        ],
        "most_changed": most_changed,
        "chosen": None if chance is None else chance.budget,
        "verdict": found.verdict(most_changed),
    }
    leave("profile", told, out, console)
    console.print(f"[bold]{found.verdict(most_changed)}[/]")
    if chance is not None and chance.speed_up > 1:
        console.print(f"use it: stmg segment {source} --model {name} --scheduler drift:key_above={chance.budget:g}")
    return 0
