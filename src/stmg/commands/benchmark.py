"""stmg benchmark: speed and cost of a segmenter beside its base network and its rivals, in turns over one stream."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.progress import Progress

from stmg.commands.judging import check_classes, num_classes, own_size, runtime_line, settings_line, size_for
from stmg.commands.progress import INTERRUPTED, progress_bar
from stmg.commands.results import leave, unsigned
from stmg.commands.segmenters import segmenter_for
from stmg.data.catalogue import is_dataset, open_dataset
from stmg.data.dataset import DataError, Dataset
from stmg.evaluation.ablation import PAPERS_MODE
from stmg.evaluation.accuracy import ConfusionMatrix
from stmg.evaluation.evaluate import percent
from stmg.evaluation.memory import peak_memory
from stmg.evaluation.rivals import rivals_of
from stmg.evaluation.speed import TURN, mean_ms, race
from stmg.evaluation.stream import Stepper, frames_of, needs_vectors
from stmg.frames import Frame
from stmg.loading import is_graph
from stmg.machine import busy
from stmg.networks import NETWORKS
from stmg.scheduler import AlwaysKey, DriftBudget
from stmg.segmenter import VideoSegmenter
from stmg.state import FrameResult, Labels
from stmg.video import open_video

BASE, OURS, PAPERS = "base on every frame", "stmg", "the paper's mode"
OWN = {"weights": None, "normalise": None}  # that another model brings with it
MEMORY_FRAMES = 12
BUDGETS = (0.5, 2.0, 4.0)  # of drift, against the one in use: beside rivals at several strides, stmg at several costs


@dataclass(frozen=True)
class Asked:
    """What is timed, on what, and how often."""

    model: str
    settings: dict[str, Any]
    """Of `segmenter_for`."""
    source: str
    smaller: list[str]
    """Models to run on every frame."""
    beside: list[str]
    """Exports of the same model for other runtimes."""
    rivals: bool
    frames: int
    repeats: int


class Entry(NamedTuple):
    """A contender."""

    stepper: Stepper
    base: str
    """The contender that its gain is held against."""
    judged: bool
    """Whether its labels can be held against the truth."""
    make: Callable[[], Stepper] | None = None
    """Makes another one, to see how much memory it needs; None where that is not of interest."""


class Stream(NamedTuple):
    """Frames in memory."""

    frames: list[Frame]
    truths: list[Labels | None]
    starts: set[int]
    """Where a video begins."""
    read_ms: float | None
    """Of a frame, from the source to memory; None where it is rendered."""
    dataset: Dataset | None
    """Whose labels they are, if there are any."""


def benchmark(asked: Asked, sizes: list[tuple[int, int]], out: Path, console: Console) -> int:
    """Time everything at every size, and judge it too where the source has labels."""
    runs: list[dict[str, Any]] = []
    interrupted, warning = False, busy()
    if warning:
        console.print(f"[yellow]{warning}[/]")
    with progress_bar(console) as progress:
        wanted: list[tuple[int, int] | None] = [*sizes] or [None]
        for size in wanted:
            try:
                runs += [_at_size(asked, size, progress)]
            except KeyboardInterrupt:  # the sizes that are done are worth having
                interrupted = True
                break
    if runs:
        told = {"model": asked.model, "source": unsigned(asked.source), "repeats": asked.repeats, "sizes": runs}
        told["warning"] = warning
        leave("benchmark", told, out, console)
    return INTERRUPTED if interrupted else 0


def _at_size(asked: Asked, wanted: tuple[int, int] | None, progress: Progress) -> dict[str, Any]:
    size = size_for(asked.model, wanted)
    ours = segmenter_for(asked.model, size=size, untrained=True, **asked.settings)
    if wanted is None:
        size = own_size(ours) or size
    stream = read_stream(asked.source, size, asked.frames, needs_vectors(ours))
    entries = _entries(asked, ours, stream, size)
    known = stream.dataset.num_classes if stream.dataset else 0
    counts = {name: ConfusionMatrix(known) for name, entry in entries.items() if entry.judged}
    total = len(stream.frames) * len(entries) * asked.repeats
    task = progress.add_task(f"{size[0]}x{size[1]}", total=total, told="")
    overlay: list[Callable[[], Any]] = []

    def heard(contender: str, repeat: int, number: int, result: FrameResult) -> None:
        progress.update(task, advance=1, told=contender)
        truth = stream.truths[number]
        if repeat == 0 and truth is not None and contender in counts:
            counts[contender].add(result.labels, truth)
        if not overlay:
            overlay.append(result.overlay)

    steppers = {name: entry.stepper for name, entry in entries.items()}
    times = race(steppers, stream.frames, asked.repeats, heard, stream.starts)
    drawing = mean_ms(overlay[0])
    outside = (stream.read_ms or 0.0) + drawing
    rows = {name: times[name].told(times[entry.base], outside) for name, entry in entries.items()}
    for name, matrix in counts.items():
        rows[name]["miou"] = percent(matrix.mean_iou())
    sample = [Frame(frame.image) for frame in stream.frames[:MEMORY_FRAMES]]
    for name, entry in entries.items():
        rows[name]["memory"] = None if entry.make is None else peak_memory(entry.make, sample)
    return {
        "size": list(size),
        "frames": len(stream.frames),
        "turn": TURN,
        "settings": settings_line(ours),
        "runtime": runtime_line(ours),
        "read_ms": None if stream.read_ms is None else round(stream.read_ms, 3),
        "draw_ms": round(drawing, 3),
        "contenders": rows,
        "latencies": {name: [round(ms, 3) for ms in times[name].repeats[0]] for name in (BASE, OURS)},
        "frame_levels": {name: [str(level) for level in times[name].levels] for name in (BASE, OURS)},
    }


def _entries(asked: Asked, ours: VideoSegmenter, stream: Stream, size: tuple[int, int]) -> dict[str, Entry]:
    trained = _speaks(asked.model, asked.settings["weights"], ours, stream, size)
    make = partial(segmenter_for, asked.model, size=size, untrained=True, **asked.settings)
    main = _modes(ours, make, trained)
    steppers: dict[str, Stepper] = {}
    if asked.rivals and isinstance(ours.scheduler, DriftBudget):
        for factor in BUDGETS:
            budget = replace(ours.scheduler, key_above=factor * ours.scheduler.key_above)
            steppers[f"{OURS} at {budget.key_above:g}"] = ours.another(scheduler=budget)
    if asked.rivals:
        steppers |= rivals_of(ours)
    entries = main | {name: Entry(stepper, BASE, trained) for name, stepper in steppers.items() if name not in main}
    for other in asked.smaller:
        settings = {**asked.settings, **OWN, "scheduler": AlwaysKey()}
        segmenter = segmenter_for(other, size=size, untrained=True, **settings)
        entries[f"{other} on every frame"] = Entry(segmenter, BASE, _speaks(other, None, segmenter, stream, size))
    for folder in asked.beside:
        if not is_graph(folder):
            raise ValueError(f"{folder} is no export; first: stmg export {asked.model} --to onnx --out {folder}")
        size_for(folder, size)
        settings = {**asked.settings, **OWN, "runtime": None, "compile": False}
        make = partial(segmenter_for, folder, size=size, **settings)
        segmenter = make()
        runtime: Any = segmenter.runtime
        name = runtime.engine.name
        if f"base, {name}" in entries:  # a second one for the same engine, of eight bits perhaps
            name = f"{name} ({Path(folder).name})"
        entries |= _modes(segmenter, make, trained, name)
    return entries


def _modes(segmenter: VideoSegmenter, make: Callable[..., Stepper], judged: bool, engine: str = "") -> dict[str, Entry]:
    """A model on every frame, as it is meant to be used, and as in the paper."""
    base = f"base, {engine}" if engine else BASE
    modes: dict[str, dict[str, Any]] = {base: {"scheduler": AlwaysKey()}}
    modes[f"{OURS}, {engine}" if engine else OURS] = {}
    if segmenter.runtime.has_mask_generator:
        modes[f"{PAPERS}, {engine}" if engine else PAPERS] = PAPERS_MODE
    return {
        name: Entry(segmenter.another(**settings), base, judged, partial(make, **settings))
        for name, settings in modes.items()
    }


def _speaks(model: str, weights: Path | None, segmenter: VideoSegmenter, stream: Stream, size: tuple[int, int]) -> bool:
    """Whether a model's labels can be held against the truth: it is trained, for the same classes."""
    if stream.dataset is None or (model in NETWORKS and weights is None):
        return False
    try:
        check_classes(model, segmenter, num_classes(segmenter, size), stream.dataset)
    except ValueError:
        return False
    return True


def read_stream(source: str, size: tuple[int, int], frames: int, vectors: bool) -> Stream:
    """The first frames of a dataset's validation videos, of a video file, or of anything else that can be opened."""
    if not is_dataset(source):
        with open_video(source, resize=size, limit=frames) as opened:
            reading = _Timed(opened)
            found = list(reading)
        return Stream(found, [None] * len(found), {0}, reading.mean_ms, None)
    dataset = open_dataset(source)
    split = "val" if "val" in dataset.splits else next(iter(dataset.splits))
    kept: list[Frame] = []
    truths: list[Labels | None] = []
    starts: set[int] = set()
    spent: list[float] = []
    for video in dataset.videos(split):
        starts.add(len(kept))
        timed = _Timed(frames_of(video, size, frames - len(kept), vectors))
        for place, frame in timed:
            kept.append(frame)
            truths.append(video.truth(place, size))
        spent += timed.spent
        if len(kept) >= frames:
            break
    if not kept:
        raise DataError(f"{source} holds no frame to time")
    labelled = any(truth is not None for truth in truths)
    rendered = source.startswith("street:")
    read_ms = None if rendered else 1000 * sum(spent) / len(spent)
    return Stream(kept, truths, starts, read_ms, dataset if labelled else None)


class _Timed:
    """An iterable, and the seconds that each of its items took to come."""

    def __init__(self, items: Iterable[Any]) -> None:
        self._items = items
        self.spent: list[float] = []

    def __iter__(self) -> Iterator[Any]:
        started = time.perf_counter()
        for item in self._items:
            self.spent.append(time.perf_counter() - started)
            yield item
            started = time.perf_counter()

    @property
    def mean_ms(self) -> float:
        return 1000 * sum(self.spent) / max(1, len(self.spent))
