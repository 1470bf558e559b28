"""OpenVINO: graphs on the CPU, a GPU, an NPU, or on whichever it chooses; it reads .onnx, .xml and .tflite."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from stmg.errors import explain_missing
from stmg.runtimes.engine import (
    DTYPES,
    LAST_OPERATIONS,
    PASSING,
    Arrays,
    GraphOutput,
    Infer,
    PlainGraph,
    Run,
    explain_unreadable,
    refuse_device,
    refuse_inputs,
)

READERS = {".xml": "ir", ".onnx": "onnx", ".tflite": "tflite"}
"""OpenVINO's names for the readers of graph files, by suffix."""


def import_openvino() -> Any:
    """Import `openvino` without the telemetry that it sends on import and on every conversion.

    It has no setting for one process, but does without where the package of its telemetry is not installed.
    """
    sys.modules.setdefault("openvino_telemetry", cast(ModuleType, None))
    with explain_missing("openvino", why="the runtime openvino needs", extra="openvino"):
        import openvino
    return openvino


class OpenVino:
    """OpenVINO on one device: cpu, gpu, gpu.1, npu, or auto, which is the one that OpenVINO chooses."""

    name = "openvino"

    def __init__(self, threads: int | None = None, device: str | None = None) -> None:
        openvino = import_openvino()
        self._core = openvino.Core()
        self.version = str(openvino.__version__)
        self.device = device or "cpu"
        self._name = self.device.upper().replace(":", ".")
        available = list(self._core.available_devices)
        # Several of a kind are called GPU.0 and GPU.1; GPU is then the first of them.
        if self._name != "AUTO" and self._name not in {*available, *(each.split(".")[0] for each in available)}:
            raise refuse_device(self.name, self.device, [*(each.lower() for each in available), "auto"])
        self.where = self._name
        self.is_cpu = self._name == "CPU"
        self.threads = threads
        self._settings: dict[str, str | int | bool] = {"PERFORMANCE_HINT": "LATENCY"}
        if self._name.split(".")[0] != "NPU":  # which has no single precision
            # Where the device has half precision OpenVINO would use it by itself, and no longer agree with PyTorch.
            self._settings["INFERENCE_PRECISION_HINT"] = "f32"
        if threads and self.is_cpu:
            self._settings["INFERENCE_NUM_THREADS"] = threads

    def for_throughput(self) -> OpenVino:
        if not self.is_cpu:
            return self
        engine = OpenVino(self.threads)
        engine.where = f"{engine.where}, throughput"
        # Threads that are bound to a core each keep the stream's own from it.
        engine._settings |= {"PERFORMANCE_HINT": "THROUGHPUT", "ENABLE_CPU_PINNING": False}
        return engine

    def compile(self, graph: Path, outputs: tuple[str, ...]) -> Run:
        model = _read_graph(graph)
        for result in list(model.results):
            if not result.output(0).get_names() & set(outputs):
                model.remove_result(result)
        compiled = self._compile(model)
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
            raise explain_unreadable(graph, error) from error
        if len(model.inputs) != 1:
            raise refuse_inputs(graph, len(model.inputs))
        image = model.inputs[0]
        dtype = DTYPES.get(image.get_element_type().get_type_name())
        results = list(model.results)
        outputs = tuple(_describe(result) for result in results)

        def select(indices: Sequence[int]) -> Infer:
            wanted = [results[index].get_name() for index in indices]
            for result in list(model.results):
                if result.get_name() not in wanted:
                    model.remove_result(result)
            left = [result.get_name() for result in model.results]
            order = [left.index(name) for name in wanted]
            try:
                compiled = self._compile(model)
            except RuntimeError as error:
                raise explain_unreadable(graph, error) from error
            infer = _infer_in_any_thread(compiled)

            def run(pixels: NDArray[Any]) -> list[NDArray[Any]]:
                arrays = infer([pixels])
                return [np.array(arrays[place]) for place in order]

            return run

        names = sorted(image.get_names())
        return PlainGraph(select, names[0] if names else "", _shape(image), dtype, outputs)

    def _compile(self, model: Any) -> Any:
        compiled = self._core.compile_model(model, self._name, self._settings)
        if self._name == "AUTO":
            self.where = f"AUTO ({', '.join(compiled.get_property('EXECUTION_DEVICES'))})"
        return compiled


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
    last = LAST_OPERATIONS.get(node.get_type_name(), "")
    return GraphOutput(name, _shape(source), source.get_element_type().is_real(), last)


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
