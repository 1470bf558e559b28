"""Entries: the methods that take part in a benchmark: a model in each mode, baselines, other models, exports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from stmg.errors import DataError, SettingsError
from stmg.evaluation.baselines import make_baselines
from stmg.evaluation.inputs import EVERY_FRAME, PAPER_SETTINGS, Subject, check_classes, count_classes, open_model
from stmg.evaluation.measuring.clip import Clip
from stmg.evaluation.measuring.streams import Stepper
from stmg.evaluation.method import BASE, Method
from stmg.models.names import is_exported, is_graph_file, is_network
from stmg.models.spec import ModelSpec
from stmg.runtimes.exported import ExportedRuntime
from stmg.runtimes.graph import GraphRuntime
from stmg.segmenter import VideoSegmenter
from stmg.streaming.schedulers import DriftBudget
from stmg.streaming.settings import Mode

BUDGET_FACTORS = (0.5, 2.0, 4.0)  # beside baselines at several strides, streams at several budgets


class Entry(NamedTuple):
    """A method that takes part."""

    stepper: Stepper
    scored: bool
    """Whether its labels can be compared with the truth."""
    mode: Mode = "online"
    """How it is run: what is stepped frame by frame is online."""
    spec: ModelSpec | None = None
    """To measure the memory of another one in its own process; None where that is not of interest."""

    @property
    def segmenter(self) -> VideoSegmenter:
        """Of a mode other than online, which only segmenters have."""
        assert isinstance(self.stepper, VideoSegmenter), self.stepper
        return self.stepper


def make_entries(
    subject: Subject,
    spec: ModelSpec,
    clip: Clip,
    modes: Sequence[Mode],
    baselines: bool,
    smaller: Sequence[str],
    beside: Sequence[str | Path],
) -> dict[Method, Entry]:
    """The base network first, then the model in each mode, and what else was chosen."""
    scored = is_scored(subject, spec, clip)
    entries = mode_entries(subject, spec, scored, modes)
    if baselines:
        entries |= baseline_entries(subject, scored, modes)
    entries |= other_entries(spec, smaller, clip)
    return entries | export_entries(spec, beside, scored, modes)


def mode_entries(
    subject: Subject, spec: ModelSpec, scored: bool, modes: Sequence[Mode], base: Method = BASE
) -> dict[Method, Entry]:
    """A model on every frame, in each mode, and as in the paper."""
    segmenter = subject.segmenter
    entries = {base: Entry(segmenter.another(**EVERY_FRAME), scored, spec=spec.with_options(**EVERY_FRAME))}
    for mode in modes:
        memory = None if mode == "realtime" else spec  # that of a live stream depends on how fast frames come
        entries[replace(base, kind=mode)] = Entry(segmenter.another(), scored, mode, memory)
        if mode == "online" and segmenter.runtime.has_mask_generator:
            paper = segmenter.another(**PAPER_SETTINGS)
            entries[replace(base, kind="paper")] = Entry(paper, scored, spec=spec.with_options(**PAPER_SETTINGS))
    return entries


def baseline_entries(subject: Subject, scored: bool, modes: Sequence[Mode]) -> dict[Method, Entry]:
    """Streams at other budgets, and what needs no other network."""
    segmenter, settings = subject.segmenter, subject.segmenter.settings
    entries: dict[Method, Entry] = {}
    for factor in BUDGET_FACTORS:
        own = settings.scheduler_for("online")
        if "online" in modes and isinstance(own, DriftBudget):
            budget = replace(own, key_above=factor * own.key_above)
            method = Method(kind="online", budget=budget.key_above)
            entries[method] = Entry(segmenter.another(mode="online", scheduler=budget, max_change=None), scored)
        own = settings.scheduler_for("offline" if "offline" in modes else "online")
        if "offline" in modes and isinstance(own, DriftBudget):
            budget = replace(own, key_above=factor * own.key_above, longest=round(factor * own.longest))
            method = Method(kind="offline", budget=budget.key_above)
            entries[method] = Entry(
                segmenter.another(mode="offline", scheduler=budget, max_change=None), scored, "offline"
            )
    return entries | {
        method: Entry(stepper, scored) for method, stepper in make_baselines(segmenter, subject.size).items()
    }


def other_entries(spec: ModelSpec, names: Sequence[str], clip: Clip) -> dict[Method, Entry]:
    """Other models on every frame, with weights and normalization of their own."""
    entries = {}
    for name in names:
        if is_exported(spec.name) and not is_exported(name):
            raise SettingsError(
                f"smaller: {name} would run in PyTorch and {spec.name} does not; first: stmg export {name} --to onnx"
            )
        shared = ("device", "precision", "threads", "size", "untrained")
        plain = ModelSpec(name, {option: spec.options.get(option) for option in shared})
        other = plain.with_options(**EVERY_FRAME)
        subject = open_model(other)
        entries[Method(kind="other-model", model=name)] = Entry(subject.segmenter, is_scored(subject, other, clip))
    return entries


def as_export(spec: ModelSpec, name: str | Path) -> ModelSpec:
    """An export of a spec's model, run as that is. An exported folder says itself how it is opened, a file does not."""
    own = ["weights", "network", "runtime", "precision", "compile", "device", "untrained"]
    if not is_graph_file(str(name)):
        own += ["normalize", "output", "activation", "threshold"]
    return ModelSpec(str(name), {option: value for option, value in spec.options.items() if option not in own})


def export_entries(
    spec: ModelSpec, folders: Sequence[str | Path], scored: bool, modes: Sequence[Mode]
) -> dict[Method, Entry]:
    """Exports of the same model, each on every frame and in each mode."""
    entries: dict[Method, Entry] = {}
    for folder in folders:
        if not is_exported(str(folder)):
            raise SettingsError(f"{folder} is no export; first: stmg export {spec.name} --to onnx --out {folder}")
        export = as_export(spec, folder)
        subject = open_model(export)
        runtime = subject.segmenter.runtime
        assert isinstance(runtime, ExportedRuntime | GraphRuntime)
        bits = runtime.manifest.bits if isinstance(runtime, ExportedRuntime) else None
        base = Method(kind="base", runtime=runtime.engine.name, bits=bits)
        if base in entries:
            base = replace(base, export=Path(folder).name)
        entries |= mode_entries(subject, export, scored, modes, base)
    return entries


def is_scored(subject: Subject, spec: ModelSpec, clip: Clip) -> bool:
    """Whether a model's labels can be compared with the truth: it is trained, for the same classes."""
    if clip.dataset is None or (is_network(spec.name) and spec.settings.weights is None):
        return False
    try:
        check_classes(subject, count_classes(subject), clip.dataset)
    except DataError:
        return False
    return True
