"""Joining: the outputs of the parts of a video, written one by one, as those of the whole."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import av

from stmg.outputs.sink import name_errors
from stmg.outputs.timeline import Span, draw_spans
from stmg.outputs.video_file import LONGEST_GAP, container_options


def join_records(parts: Sequence[Path], path: Path) -> None:
    """The records of all parts in one file."""
    with name_errors(path), path.open("wb") as out:
        for part in parts:
            with part.open("rb") as file:
                shutil.copyfileobj(file, out)


def read_records(path: Path) -> Iterator[dict[str, Any]]:
    """The records in a file, one after the other."""
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def join_timeline(records: Path, path: Path, title: str) -> None:
    """The timeline that was not drawn of the parts, from the records of all."""
    draw_spans((Span.from_record(record) for record in read_records(records)), path, title)


def join_videos(parts: Sequence[Path], starts: Sequence[float | None], path: Path) -> None:
    """The videos of all parts in one, nothing decoded and nothing encoded again.

    starts: the time of each part's first frame in seconds; None where that is not known: right after the part before.
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
                    if packet.pts is None or packet.dts is None:  # what flushes the decoder
                        continue
                    end = offset + packet.pts * tick + frame
                    packet.pts += round(offset / tick)
                    packet.dts += round(offset / tick)
                    packet.stream = stream
                    out.mux(packet)
