"""ONNX Runtime as an engine: blocks are taken out of the ONNX graph before a session is made of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from stmg.errors import MissingPackageError, ModelError, first_line, install_command
from stmg.files import atomic_path
from stmg.runtimes.engine import DTYPES, GraphOutput, Pair, PlainGraph, Run

FLOATS = ("tensor(float)", "tensor(float16)", "tensor(double)")
SIGMOIDS = ("Sigmoid", "HardSigmoid", "QLinearSigmoid")
# Operations after which probabilities are still probabilities.
PASSING = {
    *("Identity", "Cast", "Transpose", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "Resize", "Upsample"),
    *("QuantizeLinear", "DequantizeLinear"),
}


def import_onnxruntime() -> Any:
    """The package `onnxruntime`, without the telemetry that it sets up when it is imported."""
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    import onnxruntime

    return onnxruntime


class OnnxRuntime:
    """ONNX Runtime on the CPU."""

    name = "onnxruntime"
    suffix = ".onnx"
    where = "CPUExecutionProvider"

    def __init__(self, threads: int | None = None) -> None:
        try:
            import onnx

            self._onnx, self._runtime = onnx, import_onnxruntime()
        except ImportError:
            raise MissingPackageError(f"the runtime onnxruntime needs: {install_command('onnx')}") from None
        self.version = str(self._runtime.__version__)
        self.threads = threads

    def for_throughput(self) -> OnnxRuntime:
        return OnnxRuntime(1)

    def compile(self, graph: Path, closed: Iterable[Pair], outputs: tuple[str, ...], cached: Path | None) -> Run:
        session = self._read(cached)
        if session is None:
            model = self._onnx.load(str(graph))
            leave_out_blocks(model.graph, closed, outputs)
            session = self._make(model.SerializeToString(), cached)
        names = [output.name for output in session.get_outputs()]
        return lambda inputs: dict(zip(names, session.run(names, inputs), strict=True))

    def open(self, graph: Path) -> PlainGraph:
        try:
            session = self._session(str(graph), self._options())
        except Exception as error:  # onnxruntime has no family of errors
            raise ModelError(f"{graph} cannot be loaded: {first_line(error)}") from None
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

    def _make(self, model: bytes, cached: Path | None) -> Any:
        if cached is not None:
            with suppress(Exception):  # a full disk, mostly: then nothing is written
                cached.parent.mkdir(parents=True, exist_ok=True)
                with atomic_path(cached) as part:
                    options = self._options()
                    options.optimized_model_filepath = str(part)
                    return self._session(model, options)
        return self._session(model, self._options())

    def _read(self, cached: Path | None) -> Any:
        """The compiled graph on disk; None if there is none, or it is damaged."""
        if cached is None or not cached.is_file():
            return None
        try:
            os.utime(cached)  # the files that were used last stay longest
            return self._session(str(cached), self._options())
        except Exception:  # damaged, or another process removed it just now
            with suppress(OSError):
                cached.unlink(missing_ok=True)
            return None

    def _session(self, model: str | bytes, options: Any) -> Any:
        return self._runtime.InferenceSession(model, options, providers=[self.where])

    def _options(self) -> Any:
        options = self._runtime.SessionOptions()
        options.log_severity_level = 4  # errors are raised: logged as well they would be said twice
        # Its threads wait for work by running in circles, on the cores that find motion: the network alone is 3 %
        # faster that way, a stream 7 % slower.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        if self.threads:
            options.intra_op_num_threads = self.threads
        return options


def is_sigmoid(nodes: Iterable[Any], name: str) -> bool:
    """Whether a tensor is made by a sigmoid, perhaps resized or reshaped afterwards."""
    producers = {output: node for node in nodes for output in node.output}
    while name in producers and producers[name].op_type in PASSING:
        name = producers[name].input[0]
    return name in producers and producers[name].op_type in SIGMOIDS


def leave_out_blocks(graph: Any, closed: Iterable[Pair], outputs: tuple[str, ...]) -> None:
    """Replace what each block gives by what stands in for it, and remove what then nobody needs."""
    producers = {name: node for node in graph.node for name in node.output}

    def origin(name: str) -> str:
        # A tensor that is also an output of the graph may have been copied to carry the output's name.
        while name in producers and producers[name].op_type == "Identity":
            name = producers[name].input[0]
        return name

    stand_ins = {origin(pair.given): origin(pair.skipped) for pair in closed}
    for node in graph.node:
        for index, name in enumerate(node.input):
            source = origin(name)
            while source in stand_ins:  # what stands in for a block may be left out itself
                source = stand_ins[source]
            if source != origin(name):
                node.input[index] = source
    _keep_only(graph.output, [output for output in graph.output if output.name in outputs])
    needed, used = [output.name for output in graph.output], set()
    producers = {name: node for node in graph.node for name in node.output}
    while needed:
        name = needed.pop()
        if name in producers and id(producers[name]) not in used:
            used.add(id(producers[name]))
            needed += producers[name].input
    _keep_only(graph.node, [node for node in graph.node if id(node) in used])
    names = {name for node in graph.node for name in node.input}
    _keep_only(graph.initializer, [tensor for tensor in graph.initializer if tensor.name in names])
    _keep_only(graph.value_info, [])


def _keep_only(repeated: Any, items: list[Any]) -> None:
    """A repeated field of protobuf with these of its items alone."""
    del repeated[:]
    repeated.extend(items)
