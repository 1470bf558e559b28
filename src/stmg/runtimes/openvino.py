"""OpenVINO as an engine: reads .onnx, .xml and .tflite, and takes blocks out of its own graph before it compiles it."""

from __future__ import annotations

import io
import os
import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from stmg.errors import MissingPackageError, ModelError, first_line, install_command
from stmg.files import atomic_path
from stmg.runtimes.engine import DTYPES, Arrays, GraphOutput, Pair, PlainGraph, Run

SIGMOIDS = ("Sigmoid", "HardSigmoid")
# Operations after which probabilities are still probabilities.
PASSING = {"Identity", "Convert", "Transpose", "Reshape", "Squeeze", "Unsqueeze", "Interpolate", "FakeQuantize"}

DEVICE = "CPU"
READERS = {".xml": "ir", ".onnx": "onnx", ".tflite": "tflite"}
"""Of graph files, by suffix, as OpenVINO calls them."""


def import_openvino() -> Any:
    """The package `openvino`, without the telemetry that it sends when it is imported and whenever it converts.

    It has no setting for one process, but does without where the package of its telemetry is not installed.
    """
    sys.modules.setdefault("openvino_telemetry", cast(ModuleType, None))
    try:
        import openvino
    except ImportError:
        raise MissingPackageError(f"the runtime openvino needs: {install_command('openvino')}") from None
    return openvino


def _read_graph(path: Path) -> Any:
    """A graph file by the reader of its kind: left to itself OpenVINO tries all of them, and logs how each fails."""
    from openvino.frontend import FrontEndManager

    reader = FrontEndManager().load_by_framework(READERS[path.suffix])
    return reader.convert(reader.load(str(path)))


class OpenVino:
    """OpenVINO on the CPU."""

    name = "openvino"
    suffix = ".blob"

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

    def compile(self, graph: Path, closed: Iterable[Pair], outputs: tuple[str, ...], cached: Path | None) -> Run:
        compiled = self._read(cached)
        if compiled is None:
            model = _read_graph(graph)
            leave_out_blocks(model, closed, outputs)
            compiled = self._core.compile_model(model, DEVICE, self._settings)
            if cached is not None:
                with suppress(OSError):  # a full disk, mostly: then nothing is written
                    cached.parent.mkdir(parents=True, exist_ok=True)
                    with atomic_path(cached) as part:
                        part.write_bytes(compiled.export_model().getvalue())
        order = [(output, next(iter(output.names & set(outputs)))) for output in compiled.outputs]
        infer = _infer_in_any_thread(compiled)

        def run(inputs: Arrays) -> Arrays:
            results = infer(inputs)
            return {name: np.array(results[output]) for output, name in order}

        return run

    def open(self, graph: Path) -> PlainGraph:
        try:
            model = _read_graph(graph)
        except Exception as error:  # whatever its readers raise, which is of no common kind
            raise ModelError(f"{graph} cannot be loaded: {first_line(error)}") from None
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
                raise ModelError(f"{graph} cannot be loaded: {first_line(error)}") from None
            infer = _infer_in_any_thread(compiled)
            return lambda pixels: np.array(infer([pixels])[0])

        return PlainGraph(select, _shape(image), dtype, outputs)

    def _read(self, cached: Path | None) -> Any:
        """The compiled graph on disk; None if there is none, or it is damaged."""
        if cached is None or not cached.is_file():
            return None
        try:
            os.utime(cached)  # the files that were used last stay longest
            return self._core.import_model(io.BytesIO(cached.read_bytes()), DEVICE, self._settings)
        except (RuntimeError, OSError):  # damaged, or another process removed it just now
            with suppress(OSError):
                cached.unlink(missing_ok=True)
            return None


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


def leave_out_blocks(model: Any, closed: Iterable[Pair], outputs: tuple[str, ...]) -> None:
    """Replace what each block gives by what stands in for it, and remove the outputs that nobody wants."""
    sources = [
        tuple(model.output(name).get_node().input_value(0) for name in (pair.given, pair.skipped)) for pair in closed
    ]
    for result in list(model.results):
        if not result.output(0).get_names() & set(outputs):
            model.remove_result(result)
    stand_ins = {_port(given): skipped for given, skipped in sources}
    for given, skipped in sources:
        while _port(skipped) in stand_ins:  # what stands in for a block may be left out itself
            skipped = stand_ins[_port(skipped)]
        for target in list(given.get_target_inputs()):
            target.replace_source_output(skipped)


def _port(output: Any) -> tuple[str, int]:
    return output.get_node().get_name(), output.get_index()


def _infer_in_any_thread(compiled: Any) -> Callable[[Any], Any]:
    """A call that several threads may make at once: a request of OpenVINO is for one of them."""
    local = threading.local()

    def infer(inputs: Any) -> Any:
        if not hasattr(local, "request"):
            local.request = compiled.create_infer_request()
        return local.request.infer(inputs, share_inputs=True)

    return infer
