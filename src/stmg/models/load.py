"""The one way from a model's name to a segmenter: `load`, and `resolve` for a `ModelSpec`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from stmg.errors import MissingPackageError, ModelError, SettingsError, explain_missing, first_line
from stmg.models.card import parse_card
from stmg.models.correctors import has_corrector, load_corrector, read_corrector_card
from stmg.models.names import (
    find_checkpoint,
    is_code,
    is_export,
    is_graph_file,
    is_library_name,
    is_torch_file,
    is_user_function,
)
from stmg.models.palettes import find_palette, with_black_background
from stmg.models.spec import ModelSpec, merge_file, merge_options
from stmg.models.user_code import call_user_function
from stmg.runtimes import make_runtime
from stmg.runtimes.callable import CallableRuntime
from stmg.runtimes.engine import Engine, UnreadableGraphError
from stmg.runtimes.engines import ENGINES, GRAPH_ENGINES
from stmg.runtimes.exported import ExportedRuntime
from stmg.runtimes.graph import GraphRuntime
from stmg.runtimes.manifest import MANIFEST, read_manifest
from stmg.runtimes.threads import set_threads
from stmg.segmenter import VideoSegmenter
from stmg.streaming.correction import Corrector
from stmg.streaming.runtime import Runtime
from stmg.streaming.settings import is_for_opening, make_settings
from stmg.video.labels import MAX_CLASSES
from stmg.video.normalization import Normalization
from stmg.video.overlay import default_palette

Size = tuple[int, int]

_OWN_WEIGHTS = "it brings its own"
_NO_MODEL = "it is whole; model is for checkpoints of a network of your own"
_NO_NETWORK = "it is whole; network is for checkpoint folders of a network of your own"
_PRECISION = "it runs in the precision it was exported in"
_NOT_COMPILED = "only PyTorch networks are compiled by torch.compile"
NOT_FOR_GRAPHS = {
    "weights": _OWN_WEIGHTS,
    "network": _NO_NETWORK,
    "precision": _PRECISION,
    "compile": _NOT_COMPILED,
    "model": _NO_MODEL,
}
NOT_FOR_EXPORTS = {
    **NOT_FOR_GRAPHS,
    "normalize": "it holds its own mean and std",
    "output": "it has one output, chosen when it was exported",
}
NOT_FOR_FUNCTIONS = {
    "model": "the function gives the network",
    "network": "the function gives the network; its weights are for weights",
}
NOT_FOR_CALLABLES = dict.fromkeys(
    ("weights", "device", "precision", "compile", "normalize", "output", "runtime"),
    "its function gives no torch.nn.Module",
)


class Opened(NamedTuple):
    """An open model."""

    runtime: Runtime
    options: Mapping[str, Any]
    """Options it is meant to run with, as fields of `Settings`."""


def load(
    name: str | Path,
    *,
    model: object = None,
    settings: str | Path | Mapping[str, Any] | None = None,
    **options: Any,
) -> VideoSegmenter:
    """A segmenter from a shipped name, a folder (checkpoint, export, or `save_pretrained` of transformers), a Hub id, a
    file (.onnx, .xml, .tflite, .pt of TorchScript, .pt2), torchvision:NETWORK, smp:FOLDER or nets.py:function.

    model: the network itself, where a checkpoint is of a network of your own.
    settings: a file of settings as `stmg tune` writes it, or what such a file holds.
    options: fields of `Settings` by name. They come before those of the settings file, which come before the model's.
    """
    segmenter = resolve(ModelSpec(str(name), merge_file(settings, options)), model)
    segmenter.arguments = tuple(name for name, value in options.items() if value is not None)
    return segmenter


def resolve(spec: ModelSpec, model: object = None) -> VideoSegmenter:
    """The segmenter a spec describes; `model` is the network itself, where a checkpoint is of a user's own."""
    opened_as = open_adapted(spec)
    set_threads(spec.settings.threads)
    opened = _open(opened_as, model)
    corrector = _open_corrector(spec, opened.runtime)
    streaming = {name: value for name, value in opened_as.options.items() if not is_for_opening(name)}
    settings = make_settings(merge_options(opened.options, streaming))
    return VideoSegmenter(opened.runtime, settings=replace(settings, corrector=corrector))


def refuse(spec: ModelSpec, model: object, reasons: Mapping[str, str]) -> None:
    """An error for the first of these arguments that was given and cannot be honored."""
    harmless = {"device": "cpu", "precision": "fp32", "compile": False}
    for argument, reason in reasons.items():
        given = model if argument == "model" else spec.options.get(argument)
        if given is not None and given != harmless.get(argument):
            raise SettingsError(f"{argument} cannot be used with {spec.name}: {reason}")


def find_corrector(spec: ModelSpec) -> Path | None:
    """The folder of the corrector that a spec's model runs with, if any."""
    given = spec.options.get("corrector")
    if given is not None:
        return None if given == "none" else Path(given)
    if any(kind(spec.name) for kind in (is_graph_file, is_code, is_library_name, is_torch_file)):
        return None
    folder = Path(spec.name)
    if not folder.is_dir():
        folder = find_checkpoint(spec.name)
    return folder if has_corrector(folder) else None


def open_adapted(spec: ModelSpec) -> ModelSpec:
    """A folder that holds a graph file and its corrector, as that file opened as it was for the corrector."""
    graph = read_corrector_card(Path(spec.name)).graph if has_corrector(spec.name) else None
    if graph is None:
        return spec
    own = {
        "normalize": Normalization(graph.mean, graph.std),
        "output": graph.output,
        "activation": graph.activation,
        "threshold": graph.threshold,
    }
    return ModelSpec(str(Path(spec.name) / graph.file), {**own, **spec.options})


def refuse_size(spec: ModelSpec) -> None:
    """An error for a size that an exported folder cannot have, before it is loaded."""
    spec, given = open_adapted(spec), spec.settings.size
    if given is not None and is_export(spec.name):
        size = read_manifest(Path(spec.name)).size
        if given != size:
            raise SettingsError(f"size: {spec.name} is exported for {size[0]}x{size[1]}; export it again for another")


def _open(spec: ModelSpec, model: object) -> Opened:
    settings = spec.settings
    if is_graph_file(spec.name):
        refuse(spec, model, NOT_FOR_GRAPHS)
        return _open_graph_file(spec)
    if is_export(spec.name):
        refuse(spec, model, NOT_FOR_EXPORTS)
        refuse_size(spec)
        return _open_export(spec, Path(spec.name))
    if settings.runtime not in (None, "torch"):
        raise SettingsError(
            f"runtime {settings.runtime} cannot be used with {spec.name}, which is not exported; first: stmg export "
            f"{spec.name} --to {'onnx' if settings.runtime == 'onnxruntime' else settings.runtime} --out DIR"
        )
    if is_user_function(spec.name):
        refuse(spec, model, NOT_FOR_FUNCTIONS)
        network = call_user_function(spec.name)
        if not hasattr(network, "parameters"):
            refuse(spec, None, NOT_FOR_CALLABLES)
            return Opened(make_runtime(_with_foreground(network, spec)), WITHOUT_CARD)
        model = network
    why = f"{spec.name} is neither an exported folder nor a graph file, and everything else needs PyTorch"
    with explain_missing("torch", why=why, extra="torch"):
        from stmg.models.torch_models import open_torch
    return Opened(*open_torch(spec, model))


def _open_graph_file(spec: ModelSpec) -> Opened:
    settings = spec.settings
    first, *others = _choose_file_engines(spec)
    try:
        graph = _open_graph(spec, first)
    except (UnreadableGraphError, MissingPackageError) as error:
        if not others:
            raise
        try:
            graph = _open_graph(spec, others[0])
        except MissingPackageError as missing:
            raise ModelError(f"{first_line(error)}; {others[0]} may read it: {first_line(missing)}") from error
        except UnreadableGraphError:
            raise error from None
    own = graph.input_size
    if own is not None and settings.size not in (None, own):
        raise SettingsError(f"size: {spec.name} computes frames of {own[0]}x{own[1]}, and no other")
    options: dict[str, Any] = {**WITHOUT_CARD, "model_size": graph.model_size}
    if graph.class_names:
        options["class_names"] = graph.class_names
        options["palette"] = find_palette(graph.class_names) or None
    elif graph.yolo:
        options["palette"] = with_black_background(default_palette(MAX_CLASSES))
    return Opened(graph, options)


def _open_graph(spec: ModelSpec, engine: str) -> GraphRuntime:
    settings = spec.settings
    return GraphRuntime(
        Path(spec.name),
        ENGINES[engine](settings.threads, settings.device),
        settings.normalize,
        output=settings.output,
        activation=settings.activation,
        threshold=settings.threshold,
    )


WITHOUT_CARD = {"motion": "auto"}
"""Defaults for a model without a card: the motion is chosen by the network's cost on this machine."""


def _open_export(spec: ModelSpec, folder: Path) -> Opened:
    manifest, settings = read_manifest(folder), spec.settings
    engine = _choose_export_engine(spec, manifest.kind)
    card = parse_card(manifest.card, folder / MANIFEST)
    activation = settings.activation or card.activation
    threshold = card.threshold if settings.threshold is None else settings.threshold
    runtime = ExportedRuntime(folder, ENGINES[engine](settings.threads, settings.device), activation, threshold)
    return Opened(runtime, card.options())


def _open_corrector(spec: ModelSpec, runtime: Runtime) -> Corrector | None:
    given = spec.options.get("corrector")
    if given is not None and not isinstance(given, str | Path):
        return spec.settings.corrector
    folder = find_corrector(spec)
    if folder is None:
        return None
    engine: Engine | None = getattr(runtime, "engine", None)
    corrector = load_corrector(folder, engine, spec.settings.device if engine is None else "cpu")
    number = runtime.num_classes
    if number is not None and max(2, number) != corrector.num_classes:
        raise ModelError(f"the corrector in {folder} is for {corrector.num_classes} classes; {spec.name} has {number}")
    return corrector


def _choose_engine(spec: ModelSpec, own: str) -> str:
    """Choose the engine that runs a graph; `own` is the one it is for."""
    runtime = spec.settings.runtime
    if runtime == "torch":
        raise SettingsError(
            f"runtime torch cannot be used with {spec.name}, which {own} runs; PyTorch runs the checkpoint it came from"
        )
    return runtime or own


def _choose_file_engines(spec: ModelSpec) -> tuple[str, ...]:
    """The engines that may run a graph file, in the order in which they are tried."""
    suffix = Path(spec.name).suffix
    able = GRAPH_ENGINES[suffix]
    engine = _choose_engine(spec, able[0])
    if engine not in able:
        names = " and ".join(able)
        raise SettingsError(f"runtime {engine} cannot be used with {spec.name}; {suffix} files are for {names}")
    if spec.settings.runtime is None and suffix == ".tflite":
        return able
    return (engine,)


def _choose_export_engine(spec: ModelSpec, kind: str) -> str:
    """Choose the engine that runs an export for `kind`: onnx or openvino."""
    engine = _choose_engine(spec, "onnxruntime" if kind == "onnx" else kind)
    if engine == "litert":
        raise SettingsError(f"runtime litert cannot be used with {spec.name}, which is no .tflite file")
    if engine == "onnxruntime" and kind != "onnx":
        raise SettingsError(
            f"runtime onnxruntime cannot be used with {spec.name}, which is exported for {kind}; openvino reads both"
        )
    return engine


def _with_foreground(network: Any, spec: ModelSpec) -> Any:
    """Wrap a function's network in a runtime that reads a single channel as the spec states."""
    settings = spec.settings
    if settings.activation is None and settings.threshold is None:
        return network
    if isinstance(network, Runtime) or not callable(network):
        kind = type(network).__name__
        raise SettingsError(f"activation and threshold cannot be used with {spec.name}: it gives a {kind}, whole")
    return CallableRuntime(network, settings.activation, settings.threshold)
