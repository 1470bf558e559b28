"""Refusals: arguments that a kind of model cannot honor, each with the reason, instead of being ignored."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from stmg.errors import SettingsError
from stmg.runtimes.graph import GRAPH_SUFFIXES

if TYPE_CHECKING:
    from stmg.models.resolve import ModelSpec


def _choose_engine(spec: ModelSpec, own: str) -> str:
    """The engine that runs a graph; `own` is the one it is for."""
    if spec.runtime == "torch":
        raise SettingsError(
            f"runtime torch cannot be used with {spec.name}, which {own} runs; PyTorch runs the checkpoint it came from"
        )
    return spec.runtime or own


def choose_file_engine(spec: ModelSpec) -> str:
    """The engine that runs a graph file."""
    suffix = Path(spec.name).suffix
    engine = _choose_engine(spec, GRAPH_SUFFIXES[suffix])
    if engine == "onnxruntime" and suffix != ".onnx":
        raise SettingsError(f"runtime onnxruntime cannot be used with {spec.name}; openvino reads {suffix} files")
    return engine


def choose_export_engine(spec: ModelSpec, kind: str) -> str:
    """The engine that runs an export for `kind`: onnx or openvino."""
    engine = _choose_engine(spec, "onnxruntime" if kind == "onnx" else kind)
    if engine == "onnxruntime" and kind != "onnx":
        raise SettingsError(
            f"runtime onnxruntime cannot be used with {spec.name}, which is exported for {kind}; openvino reads both"
        )
    return engine


_OWN_WEIGHTS = "it brings its own"
_NO_MODEL = "it is whole; model is for checkpoints of a network of your own"
_NO_NETWORK = "it is whole; network is for checkpoint folders of a network of your own"
NOT_FOR_GRAPHS = {
    "weights": _OWN_WEIGHTS,
    "network": _NO_NETWORK,
    "device": "it runs on the CPU",
    "precision": "it runs in the precision it was exported in",
    "compile": "only PyTorch networks are compiled by torch.compile",
    "patterns": "it is always computed whole; patterns are for exported folders",
    "model": _NO_MODEL,
}
NOT_FOR_EXPORTS = {
    "weights": _OWN_WEIGHTS,
    "network": _NO_NETWORK,
    "device": "it runs on the CPU",
    "precision": "it runs in the precision it was exported in",
    "compile": "only PyTorch networks are compiled by torch.compile",
    "normalization": "it holds its own (mean, std)",
    "output": "it has one output, chosen when it was exported",
    "model": _NO_MODEL,
}
NOT_FOR_TORCH = {"patterns": "PyTorch skips blocks without compiling patterns; patterns are for exported folders"}
NOT_FOR_FUNCTIONS = {
    "model": "the function gives the network",
    "network": "the function gives the network; its weights are for weights",
}
NOT_FOR_CALLABLES = dict.fromkeys(
    ("weights", "device", "precision", "compile", "normalization", "output", "runtime"),
    "its function gives no torch.nn.Module",
)
NOT_FOR_EXPORTING = dict.fromkeys(
    ("runtime", "device", "precision", "compile", "patterns", "streaming"),
    "exports are run as whoever loads them says; give it then",
)


def refuse(spec: ModelSpec, model: object, reasons: Mapping[str, str]) -> None:
    """An error for the first of these arguments that was given and cannot be honored."""
    given = {
        "weights": spec.weights is not None,
        "network": spec.network is not None,
        "runtime": spec.runtime is not None,
        "device": spec.device not in (None, "cpu"),
        "precision": spec.precision not in (None, "fp32"),
        "normalization": spec.normalization is not None,
        "output": spec.output is not None,
        "compile": spec.compile,
        "patterns": spec.patterns is not None,
        "streaming": bool(spec.streaming),
        "model": model is not None,
    }
    for argument, reason in reasons.items():
        if given[argument]:
            raise SettingsError(f"{argument} cannot be used with {spec.name}: {reason}")
