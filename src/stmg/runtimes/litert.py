"""LiteRT, once TensorFlow Lite: .tflite files on the CPU, for those that OpenVINO cannot read."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stmg.errors import explain_missing
from stmg.runtimes.engine import (
    DTYPES,
    GraphOutput,
    Infer,
    PlainGraph,
    Run,
    explain_unreadable,
    refuse_device,
    refuse_inputs,
)
from stmg.runtimes.onnxruntime import OnnxRuntime
from stmg.runtimes.tflite import read_tflite


class LiteRt:
    """LiteRT on the CPU."""

    name = "litert"
    where = "CPU"
    is_cpu = True

    def __init__(self, threads: int | None = None, device: str | None = None) -> None:
        packages = ("ai_edge_litert", "ai_edge_litert.interpreter")
        with explain_missing(*packages, why="the runtime litert needs", extra="litert"):
            from ai_edge_litert.interpreter import Interpreter
        if device not in (None, "cpu"):
            raise refuse_device(self.name, device, ["cpu"])
        self._interpreter = Interpreter
        self.version = version("ai-edge-litert")
        self.threads = threads

    def for_throughput(self) -> LiteRt:
        return LiteRt(1)

    def compile(self, graph: Path, outputs: tuple[str, ...]) -> Run:
        """A graph of stmg's own, such as a corrector, which is an .onnx file: ONNX Runtime runs it."""
        return OnnxRuntime(self.threads).compile(graph, outputs)

    def open(self, graph: Path) -> PlainGraph:
        try:
            interpreter = self._open_interpreter(graph)
        except Exception as error:  # it has no family of errors
            raise explain_unreadable(graph, error) from error
        inputs, described = interpreter.get_input_details(), interpreter.get_output_details()
        if len(inputs) != 1:
            raise refuse_inputs(graph, len(inputs))
        dtype, last = DTYPES.get(_dtype_name(inputs[0])), read_tflite(graph).last_operations
        outputs = tuple(
            GraphOutput(each["name"], _shape(each), np.issubdtype(each["dtype"], np.floating), last[each["name"]])
            for each in described
        )

        def select(indices: Sequence[int]) -> Infer:
            local = threading.local()  # an interpreter is for one thread

            def infer(pixels: NDArray[Any]) -> list[NDArray[Any]]:
                if not hasattr(local, "interpreter"):
                    local.interpreter = self._open_interpreter(graph)
                mine, place = local.interpreter, inputs[0]["index"]
                if tuple(mine.get_input_details()[0]["shape"]) != pixels.shape:
                    mine.resize_tensor_input(place, pixels.shape)
                    mine.allocate_tensors()
                mine.set_tensor(place, pixels)
                mine.invoke()
                return [mine.get_tensor(described[index]["index"]) for index in indices]

            return infer

        return PlainGraph(select, inputs[0]["name"], _shape(inputs[0]), dtype, outputs)

    def _open_interpreter(self, graph: Path) -> Any:
        interpreter = self._interpreter(str(graph), num_threads=self.threads)
        interpreter.allocate_tensors()
        return interpreter


def _dtype_name(tensor: dict[str, Any]) -> str:
    name = np.dtype(tensor["dtype"]).name
    return "float" if name == "float32" else name


def _shape(tensor: dict[str, Any]) -> tuple[int | None, ...]:
    signature = tensor["shape_signature"] if len(tensor["shape_signature"]) else tensor["shape"]
    return tuple(int(side) if side > 0 else None for side in signature)
