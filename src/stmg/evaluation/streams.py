"""Streams: open ways over a model, and yield the answer to every frame."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from stmg.errors import DataError, SettingsError
from stmg.evaluation.baselines import HalfResolution, WarpedLogits, halve
from stmg.evaluation.inputs import Clip, Subject, check_classes, count_classes, open_model, takes_size
from stmg.evaluation.way import (
    BASE,
    EVERY_FRAME,
    PAPER_SETTINGS,
    Way,
    apply_way,
    chosen_settings,
    describe_settings,
    plain_scheduler,
)
from stmg.models.names import is_exported, is_graph_file, is_network
from stmg.models.spec import ModelSpec
from stmg.runtimes.exported import ExportedRuntime
from stmg.runtimes.graph import GraphRuntime
from stmg.segmenter import VideoSegmenter
from stmg.streaming.result import FrameResult
from stmg.streaming.runtime import Runtime
from stmg.streaming.schedulers import DriftBudget
from stmg.streaming.settings import Mode

COPY_STRIDES = (2, 3, 5)
WARP_STRIDES = (2, 3, 5, 10)
BUDGET_FACTORS = (0.5, 2.0, 4.0)  # stream at several budgets, as baselines run at several strides


class Stepper(Protocol):
    """Segments a stream frame by frame: a `VideoSegmenter` or a baseline."""

    runtime: Runtime

    def reset(self) -> None: ...

    def step(self, frame: Any) -> FrameResult: ...


@dataclass(frozen=True)
class Stream:
    """A way, opened over a model and ready to run."""

    way: Way
    stepper: Stepper
    scored: bool = True
    """True if its labels can be compared with the truth."""
    spec: ModelSpec | None = None
    """To open it again in a process where its memory is measured; None if that is not to be measured."""

    @property
    def segmenter(self) -> VideoSegmenter:
        """The stepper as a segmenter, which it is in every mode but online."""
        assert isinstance(self.stepper, VideoSegmenter), self.stepper
        return self.stepper

    @property
    def settings(self) -> str:
        """Its settings in words; empty if it has none."""
        is_copy = self.way.kind == "copied-labels" and self.way.intervals is not None
        if is_copy or not isinstance(self.stepper, VideoSegmenter):
            return ""
        return describe_settings(self.stepper, self.way.mode)


def open_way(way: Way, segmenter: VideoSegmenter, *, scored: bool = True, spec: ModelSpec | None = None) -> Stream:
    """Open a stream for a way, over the weights of a segmenter."""
    runtime = segmenter.runtime
    stepper: Stepper
    if way.kind == "half-resolution":
        stepper = HalfResolution(runtime)
    elif way.kind == "warped-logits":
        assert way.stride is not None, way
        stepper = WarpedLogits(runtime, way.stride, segmenter.settings.motion)
    else:
        stepper = apply_way(way, segmenter)
    return Stream(way, stepper, scored, spec)


def open_streams(
    subject: Subject,
    spec: ModelSpec,
    clip: Clip,
    modes: Sequence[Mode],
    baselines: bool,
    smaller: Sequence[str],
    beside: Sequence[str | Path],
) -> list[Stream]:
    """The streams of a benchmark: the base network first, then the model in each mode, then what else was chosen."""
    scored = is_scored(subject, spec, clip)
    streams = mode_streams(subject, spec, scored, modes)
    if baselines:
        streams += [open_way(way, subject.segmenter, scored=scored) for way in list_baselines(subject, modes)]
    return [
        *streams,
        *(_open_other(spec, name, clip) for name in smaller),
        *_open_exports(spec, beside, scored, modes),
    ]


def mode_streams(
    subject: Subject, spec: ModelSpec, scored: bool, modes: Sequence[Mode], base: Way = BASE
) -> list[Stream]:
    """A model on every frame, in each mode, and in the paper's mode."""
    segmenter = subject.segmenter
    streams = [open_way(base, segmenter, scored=scored, spec=spec.with_options(**EVERY_FRAME))]
    for mode in modes:
        memory = None if mode == "realtime" else spec  # the memory of a live stream depends on the rate of its frames
        chosen = chosen_settings(segmenter, spec.options, mode)
        way = replace(base, kind=mode, settings=chosen)
        streams.append(open_way(way, segmenter, scored=scored, spec=memory))
        if mode == "online" and segmenter.runtime.has_mask_generator:
            paper = replace(base, kind="paper")
            streams.append(open_way(paper, segmenter, scored=scored, spec=spec.with_options(**PAPER_SETTINGS)))
    return streams


def list_baselines(subject: Subject, modes: Sequence[Mode]) -> list[Way]:
    """Streams at other budgets, and baselines that need no other network."""
    settings, size = subject.segmenter.settings, subject.size
    ways: list[Way] = []
    budgets = [mode for mode in modes if mode != "realtime" and isinstance(settings.scheduler_for(mode), DriftBudget)]
    for factor in BUDGET_FACTORS:
        for mode in budgets:
            own = settings.scheduler_for(mode)
            assert isinstance(own, DriftBudget)
            scheduler = replace(own, key_above=factor * own.key_above)
            if mode == "offline":
                scheduler = replace(scheduler, longest=round(factor * own.longest))
            chosen = {"mode": mode, "scheduler": plain_scheduler(scheduler), "max_change": None}
            ways.append(Way(kind=mode, budget=scheduler.key_above, settings=chosen))
    ways += [Way(kind="copied-labels", stride=stride) for stride in COPY_STRIDES]
    if takes_size(subject.segmenter.runtime, halve(size)):
        ways.append(Way(kind="half-resolution"))
    return ways + [Way(kind="warped-logits", stride=stride) for stride in WARP_STRIDES]


def as_export(spec: ModelSpec, name: str | Path) -> ModelSpec:
    """The spec for an export of the same model. An exported folder knows how it is opened, a graph file does not."""
    own = ["weights", "network", "runtime", "precision", "compile", "device", "untrained"]
    if not is_graph_file(str(name)):
        own += ["normalize", "output", "activation", "threshold"]
    return ModelSpec(str(name), {option: value for option, value in spec.options.items() if option not in own})


def is_scored(subject: Subject, spec: ModelSpec, clip: Clip) -> bool:
    """True if a model's labels can be compared with the truth: it is trained, on the same classes."""
    if clip.dataset is None or (is_network(spec.name) and "weights" not in spec.options):
        return False
    try:
        check_classes(subject, count_classes(subject), clip.dataset)
    except DataError:
        return False
    return True


def _open_other(spec: ModelSpec, name: str, clip: Clip) -> Stream:
    """Open another model on every frame, with its own weights and normalization."""
    if is_exported(spec.name) and not is_exported(name):
        raise SettingsError(
            f"smaller: {name} would run in PyTorch and {spec.name} does not; first: stmg export {name} --to onnx"
        )
    shared = ("device", "precision", "threads", "size", "untrained")
    plain = ModelSpec(name, {option: spec.options.get(option) for option in shared})
    other = plain.with_options(**EVERY_FRAME)
    subject = open_model(other)
    way = Way(kind="other-model", model=name)
    return open_way(way, subject.segmenter, scored=is_scored(subject, other, clip))


def _open_exports(
    spec: ModelSpec, folders: Sequence[str | Path], scored: bool, modes: Sequence[Mode]
) -> Iterator[Stream]:
    """Open exports of the same model, each on every frame and in each mode."""
    bases: set[Way] = set()
    for folder in folders:
        if not is_exported(str(folder)):
            raise SettingsError(f"{folder} is no export; first: stmg export {spec.name} --to onnx --out {folder}")
        export = as_export(spec, folder)
        subject = open_model(export)
        runtime = subject.segmenter.runtime
        assert isinstance(runtime, ExportedRuntime | GraphRuntime)
        bits = runtime.manifest.bits if isinstance(runtime, ExportedRuntime) else None
        base = Way(kind="base", runtime=runtime.engine.name, bits=bits)
        if base in bases:
            base = replace(base, export=Path(folder).name)
        bases.add(base)
        yield from mode_streams(subject, export, scored, modes, base)
