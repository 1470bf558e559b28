"""Benchmark: speed, cost and accuracy of a model beside its base network and baselines, in turns over one stream."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from stmg.checkpoints.resolve import ModelSpec, is_export, is_graph_file, is_network, resolve
from stmg.errors import DataError, SettingsError
from stmg.evaluation.ablate import PAPER_SETTINGS
from stmg.evaluation.accuracy import ConfusionMatrix
from stmg.evaluation.baselines import make_baselines
from stmg.evaluation.clip import Clip, read_clip
from stmg.evaluation.inputs import (
    Subject,
    as_spec,
    check_classes,
    count_classes,
    describe_settings,
    hide_credentials,
    open_model,
)
from stmg.evaluation.machine import this_machine
from stmg.evaluation.memory import peak_memory
from stmg.evaluation.method import BASE, STMG, Method, MethodKind
from stmg.evaluation.results import BenchmarkResult, BenchmarkRow, Size, SizeBenchmark, percent
from stmg.evaluation.speed import TURN, mean_ms, time_interleaved
from stmg.evaluation.streams import Stepper, needs_vectors
from stmg.runtimes.exported import ExportedRuntime
from stmg.runtimes.graph import GraphRuntime
from stmg.runtimes.machine import busy_warning
from stmg.streaming.schedulers import AlwaysKey, DriftBudget
from stmg.streaming.state import FrameResult
from stmg.video.frames import Frame

MEMORY_FRAMES = 12
BUDGET_FACTORS = (0.5, 2.0, 4.0)  # beside baselines at several strides, stmg at several budgets


class Progress(NamedTuple):
    """How far a benchmark is."""

    size: Size
    method: Method
    done: int
    total: int
    """Frames at this size, of all methods and repeats."""


class Entry(NamedTuple):
    """A method that takes part."""

    stepper: Stepper
    scored: bool
    """Whether its labels can be compared with the truth."""
    spec: ModelSpec | None = None
    """To measure the memory of another one in its own process; None where that is not of interest."""


def benchmark(
    model: ModelSpec | str,
    source: str | Path,
    *,
    sizes: Sequence[Size] = (),
    frames: int = 100,
    repeats: int = 3,
    baselines: bool = False,
    smaller: Sequence[str] = (),
    beside: Sequence[str | Path] = (),
    on_frame: Callable[[Progress], None] | None = None,
) -> BenchmarkResult:
    """FPS, latency, MACs and memory of a model as a stream, in turns with its base network; mIoU if there are labels.

    model: what `stmg.load` takes, or a bare network such as ddrnet39, which may be without weights here.
    source: a dataset, of which its split `val` is used, or a video.
    sizes: frame sizes to measure at; if none is given, what the model is meant for.
    baselines: also copied labels, warped logits and half resolution, and stmg at other budgets.
    smaller: other models to run on every frame.
    beside: exports of the same model for other runtimes.

    After Ctrl-C the result has the sizes until then, and `interrupted` is True.
    """
    warning = busy_warning()
    spec = replace(as_spec(model), untrained=True)
    runs: list[SizeBenchmark] = []
    interrupted = False
    for size in sizes or (None,):
        subject = open_model(spec, size)
        spec_of_size = replace(spec, size=subject.size)
        try:
            clip = read_clip(str(source), subject.size, frames, needs_vectors(subject.segmenter))
            entries = _model_entries(subject, spec_of_size, clip)
            scored = entries[BASE].scored
            if baselines:
                entries |= _baseline_entries(subject, scored)
            entries |= _other_entries(spec_of_size, smaller, clip)
            entries |= _export_entries(spec_of_size, beside, scored)
            runs.append(_measure(subject, entries, clip, repeats, on_frame))
        except KeyboardInterrupt:
            if not runs:
                raise
            interrupted = True
            break
    return BenchmarkResult(
        machine=this_machine(),
        model=spec.name,
        interrupted=interrupted,
        source=hide_credentials(str(source)),
        repeats=repeats,
        warning=warning,
        sizes=tuple(runs),
    )


def _measure(
    subject: Subject,
    entries: dict[Method, Entry],
    clip: Clip,
    repeats: int,
    on_frame: Callable[[Progress], None] | None,
) -> SizeBenchmark:
    """Every method over the clip."""
    num_classes = clip.dataset.num_classes if clip.dataset else 0
    counts = {method: ConfusionMatrix(num_classes) for method, entry in entries.items() if entry.scored}
    total = len(clip.frames) * len(entries) * repeats
    done = 0
    first: list[FrameResult] = []

    def add(method: Method, repeat: int, index: int, result: FrameResult) -> None:
        nonlocal done
        done += 1
        truth = clip.truths[index]
        if repeat == 0 and truth is not None and method in counts:
            counts[method].add(result.labels, truth)
        if not first:
            first.append(result)
        if on_frame is not None:
            on_frame(Progress(subject.size, method, done, total))

    steppers = {method: entry.stepper for method, entry in entries.items()}
    times = time_interleaved(steppers, clip.frames, repeats, add, clip.starts)
    draw_ms = mean_ms(first[0].plot)
    outside_ms = (clip.read_ms or 0.0) + draw_ms
    sample = [Frame(frame.image) for frame in clip.frames[:MEMORY_FRAMES]]
    rows = []
    for method, entry in entries.items():
        mine = times[method]
        recorded = method in (BASE, STMG)
        rows.append(
            BenchmarkRow(
                method=method,
                miou=percent(counts[method].mean_iou()) if method in counts else None,
                timing=mine.relative_to(times[method.reference], outside_ms),
                peak_memory=None if entry.spec is None else peak_memory(partial(resolve, entry.spec), sample),
                latencies=tuple(round(ms, 3) for ms in mine.repeats[0]) if recorded else (),
                levels=tuple(mine.levels) if recorded else (),
            )
        )
    return SizeBenchmark(
        size=subject.size,
        frames=len(clip.frames),
        frames_per_turn=TURN,
        settings=describe_settings(subject.segmenter),
        runtime=subject.segmenter.runtime.description,
        read_ms=None if clip.read_ms is None else round(clip.read_ms, 3),
        draw_ms=round(draw_ms, 3),
        rows=tuple(rows),
    )


def _model_entries(subject: Subject, spec: ModelSpec, clip: Clip) -> dict[Method, Entry]:
    return _modes(subject, spec, _is_scored(subject, spec, clip))


def _baseline_entries(subject: Subject, scored: bool) -> dict[Method, Entry]:
    """stmg at other budgets, and what needs no other network."""
    steppers: dict[Method, Stepper] = {}
    scheduler = subject.segmenter.settings.scheduler
    if isinstance(scheduler, DriftBudget):
        for factor in BUDGET_FACTORS:
            budget = replace(scheduler, key_above=factor * scheduler.key_above)
            method = Method(kind="stmg", budget=budget.key_above)
            steppers[method] = subject.segmenter.another(scheduler=budget)
    steppers |= make_baselines(subject.segmenter)
    return {method: Entry(stepper, scored) for method, stepper in steppers.items()}


def _other_entries(spec: ModelSpec, names: Sequence[str], clip: Clip) -> dict[Method, Entry]:
    """Other models on every frame, with weights and normalization of their own."""
    entries = {}
    for name in names:
        other = replace(_with(spec, {"scheduler": AlwaysKey()}), name=name, weights=None, normalization=None)
        subject = open_model(other)
        entries[Method(kind="other-model", model=name)] = Entry(subject.segmenter, _is_scored(subject, other, clip))
    return entries


def _export_entries(spec: ModelSpec, folders: Sequence[str | Path], scored: bool) -> dict[Method, Entry]:
    """Exports of the same model, each on every frame and as a stream."""
    entries: dict[Method, Entry] = {}
    for folder in folders:
        if not (is_export(str(folder)) or is_graph_file(str(folder))):
            raise SettingsError(f"{folder} is no export; first: stmg export {spec.name} --to onnx --out {folder}")
        export = replace(
            spec,
            name=str(folder),
            weights=None,
            normalization=None,
            runtime=None,
            compile=False,
            untrained=False,
        )
        subject = open_model(export)
        runtime = subject.segmenter.runtime
        assert isinstance(runtime, ExportedRuntime | GraphRuntime)
        bits = runtime.manifest.bits if isinstance(runtime, ExportedRuntime) else None
        base = Method(kind="base", runtime=runtime.engine.name, bits=bits)
        if base in entries:
            base = replace(base, export=Path(folder).name)
        entries |= _modes(subject, export, scored, base)
    return entries


def _modes(subject: Subject, spec: ModelSpec, scored: bool, base: Method = BASE) -> dict[Method, Entry]:
    """A model on every frame, as it is meant to be used, and as in the paper."""
    modes: dict[MethodKind, Mapping[str, object]] = {"base": {"scheduler": AlwaysKey()}, "stmg": {}}
    if subject.segmenter.runtime.has_mask_generator:
        modes["paper"] = PAPER_SETTINGS
    return {
        replace(base, kind=kind): Entry(subject.segmenter.another(**settings), scored, _with(spec, settings))
        for kind, settings in modes.items()
    }


def _with(spec: ModelSpec, settings: Mapping[str, object]) -> ModelSpec:
    return replace(spec, streaming={**spec.streaming, **settings})


def _is_scored(subject: Subject, spec: ModelSpec, clip: Clip) -> bool:
    """Whether a model's labels can be compared with the truth: it is trained, for the same classes."""
    if clip.dataset is None or (is_network(spec.name) and spec.weights is None):
        return False
    try:
        check_classes(subject, count_classes(subject), clip.dataset)
    except DataError:
        return False
    return True
