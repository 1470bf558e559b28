"""Engines: what runs a graph on this machine, ONNX Runtime or OpenVINO, behind one protocol."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from stmg.errors import ModelError, explain_missing, first_line

Arrays = dict[str, NDArray[Any]]
Run = Callable[[Arrays], Arrays]
"""From inputs to outputs, by name."""

DTYPES: dict[str, type[np.generic]] = {
    "uint8": np.uint8,
    "u8": np.uint8,
    "float": np.float32,
    "f32": np.float32,
    "float16": np.float16,
    "f16": np.float16,
}
"""By the names that engines have for them."""
FLOATS = ("tensor(float)", "tensor(float16)", "tensor(double)")
SIGMOIDS = ("Sigmoid", "HardSigmoid", "QLinearSigmoid")
# Operations after which probabilities are still probabilities: of ONNX, then of OpenVINO.
PASSING = {
    *("Identity", "Cast", "Transpose", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "Resize", "Upsample"),
    *("QuantizeLinear", "DequantizeLinear", "Convert", "Interpolate", "FakeQuantize"),
}
DEVICE = "CPU"
READERS = {".xml": "ir", ".onnx": "onnx", ".tflite": "tflite"}
"""Of graph files, by suffix, as OpenVINO calls them."""


class GraphOutput(NamedTuple):
    """An output of a plain graph."""

    name: str
    shape: tuple[int | str | None, ...]
    """A side that is no number is known only when it runs; empty if not even the number of axes is known."""
    is_float: bool
    is_sigmoid: bool
    """True if a sigmoid makes it, so that its values are probabilities."""


class PlainGraph(NamedTuple):
    """A graph that somebody else exported."""

    compile: Callable[[int], Callable[[NDArray[Any]], NDArray[Any]]]
    """A function from its input to one of its outputs, by index."""
    shape: tuple[int | str | None, ...]
    """Of its input; a side that is no number is free."""
    dtype: type[np.generic] | None
    """Of its input; None if it is none of `DTYPES`."""
    outputs: tuple[GraphOutput, ...]


class Engine(Protocol):
    """Compiles graphs for this machine."""

    name: str
    version: str
    where: str
    """The device it runs on, in its own words."""
    threads: int | None

    def for_throughput(self) -> Engine:
        """The same engine for several runs at once, each on one core: slower for one frame, faster for many."""

    def compile(self, graph: Path, outputs: tuple[str, ...]) -> Run:
        """A function from inputs to these outputs of a graph, by name."""

    def open(self, graph: Path) -> PlainGraph:
        """A plain graph of one input."""


def describe_engine(engine: Engine) -> str:
    """An engine in one line."""
    threads = f", {engine.threads} threads" if engine.threads else ""
    return f"{engine.name} {engine.version}, {engine.where}{threads}"


def import_onnxruntime() -> Any:
    """The package `onnxruntime`, without the telemetry that it sets up when it is imported."""
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    import onnxruntime

    return onnxruntime


def import_openvino() -> Any:
    """The package `openvino`, without the telemetry that it sends when it is imported and whenever it converts.

    It has no setting for one process, but does without where the package of its telemetry is not installed.
    """
    sys.modules.setdefault("openvino_telemetry", cast(ModuleType, None))
    with explain_missing("openvino", why="the runtime openvino needs", extra="openvino"):
        import openvino
    return openvino


class OnnxRuntime:
    """ONNX Runtime on the CPU."""

    name = "onnxruntime"
    where = "CPUExecutionProvider"

    def __init__(self, threads: int | None = None) -> None:
        with explain_missing("onnx", "onnxruntime", why="the runtime onnxruntime needs", extra="onnx"):
            import onnx

            self._onnx, self._runtime = onnx, import_onnxruntime()
        self.version = str(self._runtime.__version__)
        self.threads = threads

    def for_throughput(self) -> OnnxRuntime:
        return OnnxRuntime(1)

    def compile(self, graph: Path, outputs: tuple[str, ...]) -> Run:
        session = self._open_session(graph)
        names = [name for name in outputs if name in {output.name for output in session.get_outputs()}]
        return lambda inputs: dict(zip(names, session.run(names, inputs), strict=True))

    def open(self, graph: Path) -> PlainGraph:
        try:
            session = self._open_session(graph)
        except Exception as error:  # onnxruntime has no family of errors
            raise ModelError(f"{graph} cannot be loaded: {first_line(error)}") from error
        inputs = session.get_inputs()
        if len(inputs) != 1:
            raise ModelError(f"{graph} takes {len(inputs)} inputs; a plain network takes one image")
        name, dtype = inputs[0].name, DTYPES.get(inputs[0].type.removeprefix("tensor(").removesuffix(")"))
        nodes = self._onnx.load(str(graph), load_external_data=False).graph.node
        outputs = tuple(
            GraphOutput(each.name, tuple(each.shape), each.type in FLOATS, is_sigmoid(nodes, each.name))
            for each in session.get_outputs()
        )
        settings = self._runtime.RunOptions()
        settings.only_execute_path_to_fetches = len(outputs) > 1

        def select(index: int) -> Callable[[NDArray[Any]], NDArray[Any]]:
            wanted = [outputs[index].name]
            return lambda pixels: session.run(wanted, {name: pixels}, settings)[0]

        return PlainGraph(select, tuple(inputs[0].shape), dtype, outputs)

    def _open_session(self, graph: Path) -> Any:
        options = self._runtime.SessionOptions()
        options.log_severity_level = 4  # errors are raised: logged as well they would be shown twice
        # Its threads wait for work by running in circles, on the cores that estimate flow: the network alone is 3 %
        # faster that way, a stream 7 % slower.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        if self.threads:
            options.intra_op_num_threads = self.threads
        return self._runtime.InferenceSession(str(graph), options, providers=[self.where])


def is_sigmoid(nodes: Iterable[Any], name: str) -> bool:
    """True if a tensor of an ONNX graph is made by a sigmoid, perhaps resized or reshaped afterwards."""
    producers = {output: node for node in nodes for output in node.output}
    while name in producers and producers[name].op_type in PASSING:
        name = producers[name].input[0]
    return name in producers and producers[name].op_type in SIGMOIDS


class OpenVino:
    """OpenVINO on the CPU; it reads .onnx, .xml and .tflite."""

    name = "openvino"

    def __init__(self, threads: int | None = None) -> None:
        openvino = import_openvino()
        self._core = openvino.Core()
        self.version = str(openvino.__version__)
        self.where = DEVICE
        self.threads = threads
        # Where the processor has half precision OpenVINO would use it by itself, and no longer agree with PyTorch.
        self._settings: dict[str, str | int] = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"}
        if threads:
            self._settings["INFERENCE_NUM_THREADS"] = threads

    def for_throughput(self) -> OpenVino:
        engine = OpenVino(self.threads)
        engine.where = f"{DEVICE}, throughput"
        # Threads that are bound to a core each keep the stream's own from it.
        engine._settings |= {"PERFORMANCE_HINT": "THROUGHPUT", "ENABLE_CPU_PINNING": False}
        return engine

    def compile(self, graph: Path, outputs: tuple[str, ...]) -> Run:
        model = _read_graph(graph)
        for result in list(model.results):
            if not result.output(0).get_names() & set(outputs):
                model.remove_result(result)
        compiled = self._core.compile_model(model, DEVICE, self._settings)
        order = [(output, next(iter(output.names & set(outputs)))) for output in compiled.outputs]
        infer = _infer_in_any_thread(compiled)

        def run(inputs: Arrays) -> Arrays:
            results = infer(inputs)
            return {name: np.array(results[output]) for output, name in order}

        return run

    def open(self, graph: Path) -> PlainGraph:
        try:
            model = _read_graph(graph)
        except Exception as error:  # its readers raise errors of no common kind
            raise ModelError(f"{graph} cannot be loaded: {first_line(error)}") from error
        if len(model.inputs) != 1:
            raise ModelError(f"{graph} takes {len(model.inputs)} inputs; a plain network takes one image")
        image = model.inputs[0]
        dtype = DTYPES.get(image.get_element_type().get_type_name())
        results = list(model.results)
        outputs = tuple(_describe(result) for result in results)

        def select(index: int) -> Callable[[NDArray[Any]], NDArray[Any]]:
            for result in list(model.results):
                if result.get_name() != results[index].get_name():
                    model.remove_result(result)
            try:
                compiled = self._core.compile_model(model, DEVICE, self._settings)
            except RuntimeError as error:
                raise ModelError(f"{graph} cannot be loaded: {first_line(error)}") from error
            infer = _infer_in_any_thread(compiled)
            return lambda pixels: np.array(infer([pixels])[0])

        return PlainGraph(select, _shape(image), dtype, outputs)


def _read_graph(path: Path) -> Any:
    """A graph file by the reader of its kind: left to itself OpenVINO tries all of them, and logs how each fails."""
    from openvino.frontend import FrontEndManager

    reader = FrontEndManager().load_by_framework(READERS[path.suffix])
    return reader.convert(reader.load(str(path)))


def _describe(result: Any) -> GraphOutput:
    source = result.input_value(0)
    names = sorted(result.output(0).get_names() or source.get_names())
    node = source.get_node()
    while node.get_type_name() in PASSING:
        node = node.input_value(0).get_node()
    name = names[0] if names else source.get_node().get_friendly_name()
    return GraphOutput(name, _shape(source), source.get_element_type().is_real(), node.get_type_name() in SIGMOIDS)


def _shape(port: Any) -> tuple[int | None, ...]:
    shape = port.get_partial_shape()
    if shape.rank.is_dynamic:
        return ()
    return tuple(side.get_length() if side.is_static else None for side in shape)


def _infer_in_any_thread(compiled: Any) -> Callable[[Any], Any]:
    """A call that several threads may make at once: a request of OpenVINO is for one of them."""
    local = threading.local()

    def infer(inputs: Any) -> Any:
        if not hasattr(local, "request"):
            local.request = compiled.create_infer_request()
        return local.request.infer(inputs, share_inputs=True)

    return infer


ENGINES: dict[str, type[OnnxRuntime] | type[OpenVino]] = {"onnxruntime": OnnxRuntime, "openvino": OpenVino}
"""By name."""
