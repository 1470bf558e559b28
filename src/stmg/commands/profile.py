"""stmg profile: before any training, how much of this video repeats and what that is worth on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from stmg.commands.judging import num_classes, runtime_line, size_for
from stmg.commands.progress import progress_bar
from stmg.commands.results import leave, unsigned
from stmg.commands.segmenters import segmenter_for
from stmg.evaluation.profile import profile as look
from stmg.runtimes.labels import MOST_CLASSES
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
    seen = size_for(name, size)
    segmenter = segmenter_for(name, size=seen, **model)
    vectors = segmenter.motion.needs_vectors
    opened = open_video(source, resize=seen, limit=frames, motion_vectors=vectors)
    with opened as video, progress_bar(console) as progress:
        total = min(frames, video.num_frames) if video.num_frames else frames
        task = progress.add_task("the network on every frame", total=total, told="")
        found = look(video, segmenter, num_classes(segmenter, seen) or MOST_CLASSES, lambda: progress.advance(task))
        progress.update(task, told="then every drift budget")
    chance = found.chosen(most_changed)
    told = {
        "model": name,
        "source": unsigned(source) if "://" in source else Path(source).name,
        "size": list(seen),
        "frames": len(found.distortion),
        "cuts": found.cuts,
        "runtime": runtime_line(segmenter),
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
        chosen = f"--resize {seen[0]}x{seen[1]} --scheduler drift:key_above={chance.budget:g}"
        console.print(f"use it: stmg segment {escape(unsigned(source))} --model {escape(name)} {chosen}")
    return 0
