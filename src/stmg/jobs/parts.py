"""Parts of a long video, each segmented on its own, put together to what the whole would have given."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from stmg.jobs.storage import Folder
from stmg.jobs.task import MARKER, PARTS, Figures, Task, read_marker
from stmg.outputs.choose import OUTPUTS
from stmg.outputs.join import join_records, join_timeline, join_videos, read_records

IMAGES = ("labels", "alpha-images", "cutout")
VIDEOS = ("overlay", "alpha")
JOINING = "joining"
"""File that says images of the parts are being moved to where those of the whole belong."""


def join_parts(out: Folder, task: Task, outputs: Sequence[str], folder: Path) -> Figures:
    """Write the outputs of the whole video into a work folder, but for images, which are moved; what it all took."""
    parts, figures = list[str](), Figures()
    for part in (replace(task, part=part, parts=()) for part in task.parts):
        done = read_marker(out, part)
        if done is None:
            raise FileNotFoundError(f"{part.folder} is gone from {out.url}; run the same command again")
        figures = figures.plus(done)
        parts += [part.folder] if done.frames else []  # of damaged frames alone nothing is written
    with tempfile.TemporaryDirectory(prefix="stmg-") as temporary:
        copies = Path(temporary)
        records = [out.fetch(f"{part}/{OUTPUTS['records']}", copies) for part in parts]
        joined = (folder if "records" in outputs else copies) / OUTPUTS["records"]
        join_records(records, joined)
        starts = [next(read_records(path), {"time": None})["time"] for path in records]
        for output in outputs:
            path = folder / OUTPUTS[output]
            if output in VIDEOS:
                join_videos([out.fetch(f"{part}/{OUTPUTS[output]}", copies) for part in parts], starts, path)
            elif output == "timeline":
                join_timeline(joined, path, task.video.name)
    _move_images(out, task, [OUTPUTS[output] for output in outputs if output in IMAGES], parts)
    return figures


def _move_images(out: Folder, task: Task, names: Sequence[str], parts: Sequence[str]) -> None:
    """Move the images of the parts to where those of the whole belong, or go on where that was stopped."""
    video = task.video.name
    begun = f"{video}/{PARTS}/{JOINING}"
    if out.read(begun) != task.key.encode():
        out.remove(f"{video}/{MARKER}")
        for name in names:
            out.remove_images(f"{video}/{name}")
        out.write(begun, task.key.encode())
    for name in names:
        for part in parts:
            out.move_into(f"{part}/{name}", f"{video}/{name}")
