"""ONNX Runtime: graphs on the CPU, or by the execution provider of another device."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from stmg.errors import SettingsError, explain_missing, first_line
from stmg.runtimes.engine import (
    DTYPES,
    LAST_OPERATIONS,
    PASSING,
    GraphOutput,
    Infer,
    PlainGraph,
    Quantization,
    Run,
    explain_unreadable,
    refuse_device,
    refuse_inputs,
)

FLOATS = ("tensor(float)", "tensor(float16)", "tensor(double)")
CPU = "CPUExecutionProvider"
PROVIDERS = {
    "cpu": CPU,
    "cuda": "CUDAExecutionProvider",
    "tensorrt": "TensorrtExecutionProvider",
    "directml": "DmlExecutionProvider",
    "coreml": "CoreMLExecutionProvider",
    "openvino": "OpenVINOExecutionProvider",
}
"""Execution providers by device."""
NUMBERED = ("cuda", "tensorrt", "directml")
"""Devices of which a machine may have several, as in cuda:1."""
PACKAGES = {
    "cuda": "onnxruntime-gpu",
    "tensorrt": "onnxruntime-gpu",
    "directml": "onnxruntime-directml",
    "openvino": "onnxruntime-openvino",
}
"""Packages that contain the providers. Each replaces the package onnxruntime."""


def import_onnxruntime() -> Any:
    """Import `onnxruntime` without the telemetry that it sets up on import."""
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    import onnxruntime

    return onnxruntime


class OnnxRuntime:
    """ONNX Runtime on one device: cpu, cuda, cuda:1, tensorrt, directml, coreml or openvino."""

    name = "onnxruntime"

    def __init__(self, threads: int | None = None, device: str | None = None) -> None:
        with explain_missing("onnx", "onnxruntime", why="the runtime onnxruntime needs", extra="onnx"):
            import onnx

            self._onnx, self._runtime = onnx, import_onnxruntime()
        self.version = str(self._runtime.__version__)
        self.threads = threads
        self.device = device or "cpu"
        self._kind, _, self._number = self.device.partition(":")
        self._check_device()
        self.where = PROVIDERS[self._kind] + (f" {self._number}" if self._number else "")
        self.is_cpu = self._kind == "cpu"

    def _check_device(self) -> None:
        available = self._runtime.get_available_providers()
        installed = [device for device, provider in PROVIDERS.items() if provider in available]
        if self._number and not (self._kind in NUMBERED and self._number.isdecimal()):
            raise refuse_device(self.name, self.device, installed)
        if self._kind not in installed:
            package = PACKAGES.get(self._kind)
            advice = f"the package {package} brings {self._kind}, in place of onnxruntime" if package else ""
            raise refuse_device(self.name, self.device, installed, advice)

    def for_throughput(self) -> OnnxRuntime:
        return OnnxRuntime(1) if self.is_cpu else self

    def compile(self, graph: Path, outputs: tuple[str, ...]) -> Run:
        session = self._open_session(graph)
        names = [name for name in outputs if name in {output.name for output in session.get_outputs()}]
        lock = self._make_lock()

        def run(inputs: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
            with lock:
                return dict(zip(names, session.run(names, inputs), strict=True))

        return run

    def open(self, graph: Path) -> PlainGraph:
        try:
            session = self._open_session(graph)
        except SettingsError:
            raise
        except Exception as error:  # onnxruntime has no family of errors
            raise explain_unreadable(graph, error) from error
        inputs = session.get_inputs()
        if len(inputs) != 1:
            raise refuse_inputs(graph, len(inputs))
        name, dtype = inputs[0].name, DTYPES.get(inputs[0].type.removeprefix("tensor(").removesuffix(")"))
        nodes = self._onnx.load(str(graph), load_external_data=False).graph.node
        outputs = tuple(
            GraphOutput(each.name, tuple(each.shape), each.type in FLOATS, find_last_operation(nodes, each.name))
            for each in session.get_outputs()
        )
        settings = self._runtime.RunOptions()
        settings.only_execute_path_to_fetches = len(outputs) > 1
        lock = self._make_lock()

        def select(indices: Sequence[int]) -> Infer:
            wanted = [outputs[index].name for index in indices]

            def infer(pixels: NDArray[Any]) -> list[NDArray[Any]]:
                with lock:
                    return list(session.run(wanted, {name: pixels}, settings))

            return infer

        metadata = dict(session.get_modelmeta().custom_metadata_map)
        return PlainGraph(select, name, tuple(inputs[0].shape), dtype, outputs, metadata)

    def _make_lock(self) -> Any:
        """DirectML cannot be called by several threads at once; what other accelerators compute at once only waits."""
        return nullcontext() if self.is_cpu else threading.Lock()

    def _open_session(self, graph: Path) -> Any:
        options = self._runtime.SessionOptions()
        options.log_severity_level = 4  # errors are raised: logged as well they would be shown twice
        # Its threads wait for work by running in circles, on the cores that estimate flow: the network alone is 3 %
        # faster that way, a stream 7 % slower.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        if self.threads:
            options.intra_op_num_threads = self.threads
        if self._kind == "directml":
            options.enable_mem_pattern = False  # which its provider does not support
        wanted = PROVIDERS[self._kind]
        settings = {"device_id": self._number} if self._number else {}
        # What TensorRT does not take runs in CUDA, what no accelerator takes on the CPU.
        others = [PROVIDERS["cuda"]] if self._kind == "tensorrt" else []
        providers = [(wanted, settings), *((each, {}) for each in (*others, CPU) if each != wanted)]
        try:
            session = self._runtime.InferenceSession(str(graph), options, providers=providers)
        except Exception as error:
            if self.is_cpu:
                raise
            raise SettingsError(f"device {self.device!r} does not start: {first_line(error)}; cpu works") from error
        if wanted not in session.get_providers():  # it goes on without a provider whose libraries are missing
            used = ", ".join(session.get_providers())
            raise SettingsError(
                f"device {self.device!r} does not start: its driver or libraries are missing, so that onnxruntime "
                f"chose {used}; cpu works"
            )
        return session


def find_last_operation(nodes: Iterable[Any], name: str) -> str:
    """Find the type of the operation that makes a tensor of an ONNX graph, looking past resizes and reshapes."""
    producers = {output: node for node in nodes for output in node.output}
    while name in producers and producers[name].op_type in PASSING:
        name = producers[name].input[0]
    return LAST_OPERATIONS.get(producers[name].op_type, "") if name in producers else ""


def read_onnx_scales(path: Path) -> dict[str, Quantization]:
    """Scales of inputs and outputs that are integers that stand for numbers, by name."""
    try:
        import onnx
        from onnx import numpy_helper
    except ModuleNotFoundError:  # OpenVINO reads such files without it
        return {}
    graph = onnx.load(str(path), load_external_data=False).graph
    constants = {each.name: each for each in graph.initializer}
    producers = {output: node for node in graph.node for output in node.output}
    first = {node.input[0]: node for node in graph.node if node.op_type == "DequantizeLinear"}
    scales = {}
    for end in (*graph.input, *graph.output):
        name, node = end.name, first.get(end.name)
        while node is None and name in producers:
            if producers[name].op_type == "QuantizeLinear":
                node = producers[name]
            elif producers[name].op_type not in PASSING:
                break
            name = producers[name].input[0]
        if node is None or any(each not in constants for each in node.input[1:]):
            continue
        scale, *zero_point = (numpy_helper.to_array(constants[each]).ravel() for each in node.input[1:])
        if len(scale) == 1:
            scales[end.name] = Quantization(float(scale[0]), int(zero_point[0][0]) if zero_point else 0)
    return scales
