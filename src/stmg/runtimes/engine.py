"""The protocol of an engine, and the view of a graph file that engines share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from stmg.errors import ModelError, SettingsError, first_line

Arrays = dict[str, NDArray[Any]]
Run = Callable[[Arrays], Arrays]
"""Function from inputs to outputs, by name."""
Infer = Callable[[NDArray[Any]], list[NDArray[Any]]]
"""Function from the image to the chosen outputs, in that order."""

DTYPES: dict[str, type[np.generic]] = {
    "uint8": np.uint8,
    "u8": np.uint8,
    "int8": np.int8,
    "i8": np.int8,
    "float": np.float32,
    "f32": np.float32,
    "float16": np.float16,
    "f16": np.float16,
    "double": np.float64,
    "f64": np.float64,
}
"""Dtypes by the names that engines use."""
LAST_OPERATIONS = {
    **dict.fromkeys(("Sigmoid", "HardSigmoid", "QLinearSigmoid", "LOGISTIC"), "sigmoid"),
    **dict.fromkeys(("Relu", "ReLU", "RELU", "Softplus", "SoftPlus", "Exp", "EXP"), "relu"),
}
"""Activation that an operation implies for a single channel, by its name in ONNX, OpenVINO or TensorFlow Lite."""
# Operations of ONNX, OpenVINO and TensorFlow Lite that keep the range of values.
PASSING = {
    *("Identity", "Cast", "Transpose", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "Resize", "Upsample"),
    *("QuantizeLinear", "DequantizeLinear", "Convert", "Interpolate", "FakeQuantize"),
    *("RESHAPE", "QUANTIZE", "DEQUANTIZE", "RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR", "TRANSPOSE", "SQUEEZE"),
    *("EXPAND_DIMS", "CAST"),
}


class Quantization(NamedTuple):
    """Quantization of an integer tensor: an integer means `scale * (integer - zero_point)`."""

    scale: float
    zero_point: int

    def to_floats(self, integers: NDArray[Any]) -> NDArray[np.float32]:
        """Convert quantized integers to floats."""
        floats: NDArray[np.float32] = (integers.astype(np.float32) - self.zero_point) * np.float32(self.scale)
        return floats

    def to_integers(self, numbers: NDArray[Any], dtype: type[np.generic]) -> NDArray[Any]:
        """Convert floats to the nearest quantized integers."""
        limits = np.iinfo(dtype)  # type: ignore[type-var]
        integers: NDArray[Any] = np.rint(numbers / self.scale + self.zero_point).clip(limits.min, limits.max)
        return integers.astype(dtype)


class GraphOutput(NamedTuple):
    """An output of a plain graph."""

    name: str
    shape: tuple[int | str | None, ...]
    """A side that is no number is known only when it runs; empty if not even the number of axes is known."""
    is_float: bool
    last: str = ""
    """`sigmoid` if one makes it, so that its values are probabilities; `relu` if they are any numbers from 0 up."""
    quantization: Quantization | None = None
    """Quantization of the output; None if it is not quantized."""


class PlainGraph(NamedTuple):
    """A graph that somebody else exported."""

    compile: Callable[[Sequence[int]], Infer]
    """A function from its input to some of its outputs, by index."""
    name: str
    """Name of the input."""
    shape: tuple[int | str | None, ...]
    """Shape of the input; a side that is not a number is free."""
    dtype: type[np.generic] | None
    """Dtype of the input; None if it is not in `DTYPES`."""
    outputs: tuple[GraphOutput, ...]
    metadata: Mapping[str, str] = {}
    """Metadata that the exporter wrote into the file."""


class UnreadableGraphError(ModelError):
    """A graph file that an engine cannot read or compile; another engine may."""


class Engine(Protocol):
    """Compiles graphs for this machine."""

    name: str
    version: str
    where: str
    """The device it runs on, in its own words."""
    threads: int | None
    is_cpu: bool
    """False on a GPU or another accelerator, which computes one frame after the other."""

    def for_throughput(self) -> Engine:
        """Return this engine for several runs at once, each on one core: slower for one frame, faster for many."""

    def compile(self, graph: Path, outputs: tuple[str, ...]) -> Run:
        """Compile a graph to a function from inputs to these outputs, by name."""

    def open(self, graph: Path) -> PlainGraph:
        """Open a plain graph of one input."""


def describe_engine(engine: Engine) -> str:
    """An engine in one line."""
    threads = f", {engine.threads} threads" if engine.threads and engine.is_cpu else ""
    return f"{engine.name} {engine.version}, {engine.where}{threads}"


def explain_unreadable(graph: Path, error: Exception) -> UnreadableGraphError:
    """Make the error for a graph file that an engine cannot read."""
    return UnreadableGraphError(f"{graph} cannot be loaded: {first_line(error)}")


def refuse_inputs(graph: Path, count: int) -> ModelError:
    """The error for a graph of several inputs."""
    return ModelError(f"{graph} takes {count} inputs; a plain network takes one image")


def refuse_device(engine: str, device: str, installed: Iterable[str], advice: str = "") -> SettingsError:
    """The error for a device that an engine does not have here, with those that it has."""
    return SettingsError(f"device {device!r}: {engine} has {', '.join(installed)} here{advice and '; '}{advice}")
