"""Parts of a long video: cut it, and join the outputs of its parts."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import av

from stmg.jobs.storage import Folder
from stmg.jobs.task import MARKER, PARTS, Part, Task, Totals, read_marker
from stmg.outputs.choose import IMAGES, OUTPUTS, VIDEOS
from stmg.outputs.sinks import name_errors
from stmg.outputs.timeline import Span, draw_spans
from stmg.outputs.videos import LONGEST_GAP, container_options

JOINING = "joining"
"""File that marks parts whose images are being moved into the folder of the whole video."""


def cut_frames(count: int, chunk: int, every: int = 1, limit: int | None = None) -> tuple[Part, ...]:
    """Cut a video of `count` frames, of which every `every`th is used, into parts. Empty if one part is enough.

    Each part begins with the last frame of the part before. The last part has between half and one and a half chunks.
    """
    taken = -(-count // every)
    taken = taken if limit is None else min(taken, limit)
    number = round(taken / chunk)
    if number < 2:
        return ()
    starts = [chunk * at for at in range(number)]
    return tuple(
        Part(at, start * every, last * every)
        for at, (start, last) in enumerate(zip(starts, [*starts[1:], taken - 1], strict=True))
    )


def join_parts(out: Folder, task: Task, outputs: Sequence[str], folder: Path) -> Totals:
    """Write the outputs of the whole video to a work folder, and move the images into place. Return the totals."""
    parts, totals = list[str](), Totals()
    for part in (replace(task, part=part, parts=()) for part in task.parts):
        done = read_marker(out, part).totals
        if done is None:
            raise FileNotFoundError(f"{part.folder} is gone from {out.url}; run the same command again")
        totals = totals.plus(done)
        parts += [part.folder] if done.frames else []  # a part with only damaged frames has no outputs
    with tempfile.TemporaryDirectory(prefix="stmg-") as temporary:
        copies = Path(temporary)
        records = [out.fetch(f"{part}/{OUTPUTS['records']}", copies) for part in parts]
        joined = (folder if "records" in outputs else copies) / OUTPUTS["records"]
        join_records(records, joined)
        starts = [next(_read_records(path), {"time": None})["time"] for path in records]
        for output in outputs:
            path = folder / OUTPUTS[output]
            if output in VIDEOS:
                join_videos([out.fetch(f"{part}/{OUTPUTS[output]}", copies) for part in parts], starts, path)
            elif output == "timeline":
                draw_spans(map(Span.from_record, _read_records(joined)), path, task.video.name)
    _move_images(out, task, [OUTPUTS[output] for output in outputs if output in IMAGES], parts)
    return totals


def join_records(parts: Sequence[Path], path: Path) -> None:
    """Join the records of all parts in one file."""
    with name_errors(path), path.open("wb") as out:
        for part in parts:
            with part.open("rb") as file:
                shutil.copyfileobj(file, out)


def join_videos(parts: Sequence[Path], starts: Sequence[float | None], path: Path) -> None:
    """Join the videos of all parts in one file, without decoding or encoding.

    starts: the time of each part's first frame in seconds. None: unknown; the part follows directly after the last.
    """
    end = Fraction(0)
    with name_errors(path), av.open(str(path.absolute()), "w", options=container_options(path)) as out:
        stream: Any = None
        for part, start in zip(parts, starts, strict=True):
            known = start is not None and starts[0] is not None
            offset = max(end, Fraction(start - starts[0])) if known else end  # type: ignore[operator]
            offset = end if offset - end > LONGEST_GAP else offset
            with av.open(str(part.absolute())) as container:
                source = container.streams.video[0]
                if stream is None:
                    stream = out.add_stream_from_template(source)
                frame = 1 / Fraction(source.average_rate or 30)
                tick = source.time_base
                assert tick is not None
                for packet in container.demux(source):
                    if packet.pts is None or packet.dts is None:  # the packet that flushes the decoder
                        continue
                    end = offset + packet.pts * tick + frame
                    packet.pts += round(offset / tick)
                    packet.dts += round(offset / tick)
                    packet.stream = stream
                    out.mux(packet)


def _read_records(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def _move_images(out: Folder, task: Task, names: Sequence[str], parts: Sequence[str]) -> None:
    """Move the images of the parts into the folder of the whole, or continue where an earlier run stopped."""
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
