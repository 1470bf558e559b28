"""The one way from a model's name to a segmenter: `ModelSpec` says what is wanted, `resolve` makes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from stmg.errors import MissingPackageError, ModelError, SettingsError, install_command
from stmg.models.card import parse_card, read_card
from stmg.models.correctors import has_corrector, load_corrector, read_corrector_card
from stmg.models.kinds import is_code, is_export, is_graph_file, is_user_function
from stmg.models.locate import find_checkpoint
from stmg.models.refusals import (
    NOT_FOR_CALLABLES,
    NOT_FOR_EXPORTS,
    NOT_FOR_FUNCTIONS,
    NOT_FOR_GRAPHS,
    NOT_FOR_TORCH,
    choose_export_engine,
    choose_file_engine,
    refuse,
)
from stmg.models.settings_file import SavedSettings, read_settings
from stmg.models.user_code import call_user_function
from stmg.runtimes.callable import CallableRuntime
from stmg.runtimes.engines import ENGINES
from stmg.runtimes.exported import ExportedRuntime
from stmg.runtimes.graph import GraphRuntime
from stmg.runtimes.labels import check_foreground
from stmg.runtimes.manifest import MANIFEST, read_manifest
from stmg.runtimes.normalization import IMAGENET_MEAN, IMAGENET_STD, Normalization
from stmg.runtimes.patterns import PATTERNS
from stmg.runtimes.threads import check_threads, set_threads
from stmg.segmenter import VideoSegmenter
from stmg.streaming.runtime import Runtime
from stmg.streaming.settings import StreamSettings, make_settings

RUNTIMES = ("torch", *ENGINES)
ANY_SIZE = (360, 480)
"""What a network that takes any size is shown unless a size is given."""


@dataclass(frozen=True, kw_only=True)
class ModelSpec:
    """A model as a user names it, and how it is to run. What it cannot honor, `resolve` refuses."""

    name: str
    """Shipped name, checkpoint folder, exported folder, .onnx, .xml or .tflite file, Hub id, network (ddrnet39), or
    file.py:function."""
    weights: Path | None = None
    """.pth or .safetensors file for a network or a function."""
    network: str | None = None
    """file.py:function that gives the network itself, where `name` is a checkpoint folder of a network of your own."""
    runtime: str | None = None
    """torch, onnxruntime or openvino; the model's own if None."""
    device: str | None = None
    """cpu, cuda, cuda:1, mps; for PyTorch a GPU if there is one and None is given."""
    precision: str | None = None
    """fp32, bf16 or fp16; fp32 if None."""
    threads: int | None = None
    """CPU threads of OpenCV and of what runs the network; as many as they choose if None."""
    normalization: Normalization | None = None
    """For graph files and networks, which do not say it themselves; ImageNet's if None."""
    output: str | int | None = None
    """Name or index of the output to use, for graph files and networks of your own that give several."""
    activation: str | None = None
    """logits or probability, for networks of one channel; read off a final sigmoid or the values if None."""
    threshold: float | None = None
    """The probability above which a pixel is foreground, for networks of one channel; 0.5 if None."""
    compile: bool = False
    """Whether torch.compile is to put key frames together."""
    patterns: int | None = None
    """How many patterns of open blocks an exported folder holds compiled."""
    size: tuple[int, int] | None = None
    """(H, W) of the frames to work at; the model's own if None."""
    untrained: bool = False
    """Allow a network without weights: its labels mean nothing, its speed does."""
    corrector: str | None = None
    """A folder that `stmg adapt` wrote, or `none`; if None, the one beside the model, where there is one."""
    streaming: Mapping[str, object] = field(default_factory=dict)
    """Fields of `StreamSettings` that override the model's own."""

    def __post_init__(self) -> None:
        if self.runtime is not None and self.runtime not in RUNTIMES:
            raise SettingsError(f"no runtime is called {self.runtime!r}; there are {', '.join(RUNTIMES)}")
        if self.threads is not None:
            check_threads(self.threads)
        check_foreground(self.activation, self.threshold)
        make_settings(self.streaming)


def as_spec(model: ModelSpec | str | Path) -> ModelSpec:
    """A model as a function takes it: a spec, or a name or path alone."""
    return model if isinstance(model, ModelSpec) else ModelSpec(name=str(model))


def with_saved(spec: ModelSpec, saved: SavedSettings) -> ModelSpec:
    """A spec with what a settings file holds, where the spec itself says nothing."""
    return replace(
        spec,
        runtime=spec.runtime or saved.runtime,
        precision=spec.precision or saved.precision,
        threads=spec.threads or saved.threads,
        size=spec.size or saved.size,
        streaming={**saved.streaming(), **spec.streaming},
    )


def load(
    name: str | Path,
    *,
    model: object = None,
    runtime: str | None = None,
    device: str | None = None,
    precision: str | None = None,
    threads: int | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    output: str | int | None = None,
    activation: str | None = None,
    threshold: float | None = None,
    patterns: int | None = None,
    corrector: str | Path | None = None,
    settings: str | Path | None = None,
    **streaming: object,
) -> VideoSegmenter:
    """A segmenter from a shipped name, a checkpoint folder, a Hub id, an exported folder, or a graph file: .onnx, .xml
    or .tflite.

    model: the network itself, where a checkpoint is of a network of your own.
    runtime: torch, onnxruntime or openvino; what the folder or file is for if not given.
    device: for PyTorch; a GPU if there is one and none is given.
    precision: fp32, or bf16 or fp16 by autocast, for PyTorch.
    threads: CPU threads of OpenCV and of what runs the network.
    mean, std: what a graph file was trained with, for RGB values from 0 to 1; ImageNet's if not given.
    output: name or index of the output to use, where a graph file has several; the largest map if not given.
    activation: logits or probability, for networks of one channel; a final sigmoid or the values tell if not given.
    threshold: the probability above which a pixel is foreground, for networks of one channel; 0.5 if not given.
    patterns: how many patterns of open blocks an exported network holds compiled; each takes memory.
    corrector: a folder that `stmg adapt` wrote, or `none`; the one beside the model, where there is one, if not given.
    settings: a file of settings as `stmg tune` writes it; arguments given beside it come first.
    streaming: fields of `StreamSettings` that override the checkpoint's.
    """
    normalization = None
    if mean is not None or std is not None:
        normalization = Normalization(tuple(mean or IMAGENET_MEAN), tuple(std or IMAGENET_STD))
    spec = ModelSpec(
        name=str(name),
        runtime=runtime,
        device=device,
        precision=precision,
        threads=threads,
        normalization=normalization,
        output=output,
        activation=activation,
        threshold=threshold,
        patterns=patterns,
        corrector=None if corrector is None else str(corrector),
    )
    if settings is not None:
        saved = read_settings(settings)
        spec = with_saved(spec, replace(saved, size=None))
        if saved.size is not None:
            streaming = {"working_size": saved.size, **streaming}
    return resolve(replace(spec, streaming={**spec.streaming, **streaming}), model)


def resolve(spec: ModelSpec, model: object = None) -> VideoSegmenter:
    """The segmenter a spec describes; `model` is the network itself, where a checkpoint is of a user's own."""
    segmenter = _resolve_model(open_adapted(spec), model)
    folder = find_corrector(spec)
    if folder is None:
        return segmenter
    engine = getattr(segmenter.runtime, "engine", None)
    corrector = load_corrector(folder, engine, spec.device)
    number = segmenter.runtime.num_classes
    if number is not None and max(2, number) != corrector.num_classes:
        raise ModelError(f"the corrector in {folder} is for {corrector.num_classes} classes; {spec.name} has {number}")
    return segmenter.another(corrector=corrector)


def find_corrector(spec: ModelSpec) -> Path | None:
    """The folder of the corrector that a spec's model runs with, if any."""
    if spec.corrector is not None:
        return None if spec.corrector == "none" else Path(spec.corrector)
    if is_graph_file(spec.name) or is_code(spec.name):
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
    return replace(
        spec,
        name=str(Path(spec.name) / graph.file),
        normalization=spec.normalization or Normalization(graph.mean, graph.std),
        output=graph.output if spec.output is None else spec.output,
        activation=spec.activation or graph.activation,
        threshold=graph.threshold if spec.threshold is None else spec.threshold,
    )


def _resolve_model(spec: ModelSpec, model: object) -> VideoSegmenter:
    path = Path(spec.name)
    set_threads(spec.threads)
    if is_graph_file(spec.name):
        refuse(spec, model, NOT_FOR_GRAPHS)
        engine = choose_file_engine(spec)
        graph = GraphRuntime(
            path,
            ENGINES[engine](spec.threads),
            spec.normalization,
            output=spec.output,
            activation=spec.activation,
            threshold=spec.threshold,
        )
        if graph.input_size is not None and spec.size not in (None, graph.input_size):
            own = "x".join(map(str, graph.input_size))
            raise SettingsError(f"size: {spec.name} computes frames of {own}, and no other")
        return VideoSegmenter(graph, settings=settings_without_card(spec))
    if is_export(spec.name):
        refuse(spec, model, NOT_FOR_EXPORTS)
        working_size(spec)
        return _open_export(spec, path)
    if spec.runtime not in (None, "torch"):
        raise SettingsError(
            f"runtime {spec.runtime} cannot be used with {spec.name}, which is not exported; first: "
            f"stmg export {spec.name} --to {'onnx' if spec.runtime == 'onnxruntime' else spec.runtime} --out DIR"
        )
    refuse(spec, None, NOT_FOR_TORCH)
    if is_user_function(spec.name):
        refuse(spec, model, NOT_FOR_FUNCTIONS)
        network = call_user_function(spec.name)
        if not hasattr(network, "parameters"):
            refuse(spec, None, NOT_FOR_CALLABLES)
            return VideoSegmenter(_with_foreground(network, spec), settings=settings_without_card(spec))
        model = network
    try:
        from stmg.models.torch_models import resolve_torch
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        why = "is neither an exported folder nor a graph file, and everything else needs PyTorch"
        raise MissingPackageError(f"{spec.name} {why}: {install_command('torch')}") from None
    return resolve_torch(spec, model)


def working_size(spec: ModelSpec) -> tuple[int, int]:
    """(H, W) to work at: the one given, or what the model is meant for; 360x480 for a network of any size."""
    spec = open_adapted(spec)
    if is_export(spec.name):
        size = read_manifest(Path(spec.name)).size
        if spec.size not in (None, size):
            raise SettingsError(f"size: {spec.name} is exported for {size[0]}x{size[1]}; export it again for another")
        return size
    if spec.size is not None:
        return spec.size
    if is_graph_file(spec.name):
        return resolve(spec).runtime.input_size or ANY_SIZE
    if is_code(spec.name):
        return ANY_SIZE
    return read_card(find_checkpoint(spec.name)).size or ANY_SIZE


def settings_without_card(spec: ModelSpec) -> StreamSettings:
    """How a model streams that has no card to say it: with the motion that fits what it costs here."""
    return make_settings({"motion": "auto", **spec.streaming})


def _open_export(spec: ModelSpec, folder: Path) -> VideoSegmenter:
    manifest = read_manifest(folder)
    engine = choose_export_engine(spec, manifest.kind)
    patterns = PATTERNS if spec.patterns is None else spec.patterns
    card = parse_card(manifest.card, folder / MANIFEST)
    activation = spec.activation or card.activation
    threshold = card.threshold if spec.threshold is None else spec.threshold
    runtime = ExportedRuntime(folder, ENGINES[engine](spec.threads), patterns, activation, threshold)
    return VideoSegmenter(runtime, settings=make_settings(spec.streaming, card.stream_settings()))


def _with_foreground(network: Any, spec: ModelSpec) -> Any:
    """What a function gave, as a runtime that reads one channel as the spec states it."""
    if spec.activation is None and spec.threshold is None:
        return network
    if isinstance(network, Runtime) or not callable(network):
        kind = type(network).__name__
        raise SettingsError(f"activation and threshold cannot be used with {spec.name}: it gives a {kind}, whole")
    return CallableRuntime(network, spec.activation, spec.threshold)
