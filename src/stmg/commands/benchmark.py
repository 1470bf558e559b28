"""stmg benchmark: speed and cost of a segmenter beside its base network and its rivals, in turns over one stream."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.progress import Progress

from stmg.commands.judging import native_size, num_classes
from stmg.commands.progress import progress_bar
from stmg.commands.results import leave
from stmg.commands.segmenters import segmenter_for
from stmg.data.catalogue import open_dataset
from stmg.data.dataset import DataError
from stmg.evaluation.accuracy import ConfusionMatrix
from stmg.evaluation.evaluate import percent
from stmg.evaluation.rivals import rivals_of
from stmg.evaluation.speed import TURN, mean_ms, peak_memory, race
from stmg.evaluation.stream import Stepper
from stmg.frames import Image
from stmg.scheduler import AlwaysKey, PaperScheduler
from stmg.segmenter import VideoSegmenter
from stmg.state import FrameResult, Labels
from stmg.video import open_video

BASE, OURS = "base on every frame", "stmg"
MEMORY_FRAMES = 12


class Stream(NamedTuple):
    """Frames in memory."""

    images: list[Image]
    truths: list[Labels | None]
    starts: set[int]
    """Where a video begins."""
    read_ms: float
    """Of a frame, from the source to memory."""
    num_classes: int
    """Of the truth; 0 without any."""


def benchmark(
    model: dict[str, Any],
    name: str,
    source: str,
    sizes: list[tuple[int, int]],
    *,
    smaller: list[str],
    rivals: bool,
    frames: int,
    repeats: int,
    out: Path,
    console: Console,
) -> int:
    """Time everything at every size, and judge it too where the source has labels."""
    with progress_bar(console) as progress:
        runs = [
            _at_size(model, name, source, size, smaller, rivals, frames, repeats, progress)
            for size in sizes or [native_size(name)]
        ]
    told = {"model": name, "source": source, "repeats": repeats, "sizes": runs}
    leave("benchmark", told, out, console)
    return 0


def _at_size(
    model: dict[str, Any],
    name: str,
    source: str,
    size: tuple[int, int],
    smaller: list[str],
    rivals: bool,
    frames: int,
    repeats: int,
    progress: Progress,
) -> dict[str, Any]:
    stream = read_stream(source, size, frames)
    make = partial(segmenter_for, name, size=size, untrained=True, **model)
    ours = make()
    contenders: dict[str, Stepper] = {BASE: VideoSegmenter(ours.runtime, scheduler=AlwaysKey()), OURS: ours}
    if ours.runtime.has_mask_generator:
        contenders["the paper's mode"] = make(scheduler=PaperScheduler(), motion="none")
    if rivals:
        contenders |= {rival: stepper for rival, stepper in rivals_of(ours).items() if rival not in contenders}
    for other in smaller:
        plain = {**model, "weights": None}
        contenders[f"{other} on every frame"] = segmenter_for(
            other, size=size, untrained=True, **{**plain, "scheduler": AlwaysKey()}
        )
    judged = stream.num_classes and stream.num_classes == num_classes(ours, size)
    counts = {each: ConfusionMatrix(stream.num_classes) for each in contenders} if judged else {}
    height, width = size
    total = len(stream.images) * len(contenders) * repeats
    task = progress.add_task(f"{height}x{width}", total=total, told="")

    def heard(contender: str, repeat: int, number: int, result: FrameResult) -> None:
        progress.update(task, advance=1, told=contender)
        truth = stream.truths[number]
        if counts and truth is not None and repeat == 0:
            counts[contender].add(result.labels, truth)

    times = race(contenders, stream.images, repeats, heard, stream.starts)
    drawing = mean_ms(lambda: ours.step(stream.images[0]).overlay()) - mean_ms(lambda: ours.step(stream.images[0]))
    extra = stream.read_ms + max(0.0, drawing)
    rows = {each: found.told(times[BASE], extra) for each, found in times.items()}
    for each, matrix in counts.items():
        rows[each]["miou"] = percent(matrix.mean_iou())
    sample = stream.images[:MEMORY_FRAMES]
    rows[BASE]["memory"] = peak_memory(partial(make, scheduler=AlwaysKey()), sample)
    rows[OURS]["memory"] = peak_memory(make, sample)
    return {
        "size": list(size),
        "frames": len(stream.images),
        "turn": TURN,
        "read_ms": round(stream.read_ms, 3),
        "draw_ms": round(max(0.0, drawing), 3),
        "contenders": rows,
        "latencies": {each: [round(ms, 3) for ms in times[each].repeats[0]] for each in (BASE, OURS)},
        "frame_levels": {each: [str(level) for level in times[each].levels] for each in (BASE, OURS)},
    }


def read_stream(source: str, size: tuple[int, int], frames: int) -> Stream:
    """The first frames of a dataset's validation videos, of a video file, or of anything else that can be opened."""
    started = time.perf_counter()
    try:
        dataset = open_dataset(source)
    except DataError:
        with open_video(source, resize=size, limit=frames) as opened:
            images = [frame.image for frame in opened]
        return Stream(images, [None] * len(images), {0}, _each(started, images), 0)
    split = "val" if "val" in dataset.splits else next(iter(dataset.splits))
    images, truths, starts = [], [], set()
    for video in dataset.videos(split):
        starts.add(len(images))
        for place in range(len(video))[: frames - len(images)]:
            images.append(video.image(place, size))
            truths.append(video.truth(place, size))
    if not images:
        raise DataError(f"{source} holds no frame to time")
    labelled = any(truth is not None for truth in truths)
    return Stream(images, truths, starts, _each(started, images), dataset.num_classes if labelled else 0)


def _each(started: float, images: list[Image]) -> float:
    return 1000 * (time.perf_counter() - started) / max(1, len(images))
