"""Engines: what runs an exported graph: blocks are left out of it for good, it is compiled, and may be kept on disk."""

from __future__ import annotations

import io
import os
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

KINDS = {
    "uint8": np.uint8,
    "u8": np.uint8,
    "float": np.float32,
    "f32": np.float32,
    "float16": np.float16,
    "f16": np.float16,
}

Arrays = dict[str, NDArray[Any]]
Run = Callable[[Arrays], Arrays]


class Pair(NamedTuple):
    """Names of tensors in a graph."""

    block: int
    skipped: str
    """What stands in when the block is left out."""
    given: str
    """What the block gives."""


class Opened(NamedTuple):
    """A graph of somebody else."""

    run: Callable[[NDArray[Any]], NDArray[Any]]
    """From its input to its first output."""
    shape: tuple[Any, ...]
    """Of its input; what is no number is free."""
    kind: Any
    """Of its input's values, for numpy."""


class Engine(Protocol):
    """Compiles graphs for this machine."""

    name: str
    version: str
    where: str
    """What it runs on, in its own words."""
    threads: int | None
    ending: str
    """Of compiled graphs on disk."""

    def compile(self, graph: Path, pairs: Iterable[Pair], outputs: tuple[str, ...], kept: Path | None) -> Run:
        """A function from inputs to outputs by name, of the graph without the blocks of `pairs`.

        With `kept`, a compiled graph is read from there if it is there, and left there if not.
        """

    def open(self, graph: Path) -> Opened:
        """A plain graph of one input."""


class OnnxRuntime:
    """ONNX Runtime on the CPU, or on what `providers` names."""

    name = "onnxruntime"
    ending = "onnx"

    def __init__(self, threads: int | None = None, providers: tuple[str, ...] = ("CPUExecutionProvider",)) -> None:
        try:
            import onnx
            import onnxruntime
        except ImportError:
            raise ImportError('the runtime onnxruntime needs: pip install "stmg[onnx]"') from None
        self._onnx, self._runtime = onnx, onnxruntime
        self.version = str(onnxruntime.__version__)
        self.threads, self.providers = threads, list(providers)
        self.where = " ".join(providers)

    def compile(self, graph: Path, pairs: Iterable[Pair], outputs: tuple[str, ...], kept: Path | None) -> Run:
        session = self._kept(kept)
        if session is None:
            session = self._made(self._without(graph, pairs, outputs).SerializeToString(), kept)
        names = [output.name for output in session.get_outputs()]
        return lambda inputs: dict(zip(names, session.run(names, inputs), strict=True))

    def _made(self, model: bytes, kept: Path | None) -> Any:
        if kept is not None:
            with suppress(Exception), _place_for(kept) as part:  # a full disk, mostly: then nothing is kept
                options = self._options()
                options.optimized_model_filepath = str(part)
                return self._runtime.InferenceSession(model, options, providers=self.providers)
        return self._runtime.InferenceSession(model, self._options(), providers=self.providers)

    def _kept(self, kept: Path | None) -> Any:
        """The compiled graph on disk; None if there is none, or it is damaged."""
        if kept is None or not kept.is_file():
            return None
        try:
            os.utime(kept)  # the files that were used last stay longest
            return self._runtime.InferenceSession(str(kept), self._options(), providers=self.providers)
        except Exception:
            with suppress(OSError):
                kept.unlink(missing_ok=True)
            return None

    def open(self, graph: Path) -> Opened:
        options = self._options()
        try:
            session = self._runtime.InferenceSession(str(graph), options, providers=self.providers)
        except Exception as error:
            raise ValueError(f"{graph} cannot be loaded: {str(error).splitlines()[0]}") from None
        (image,) = _only(session.get_inputs(), graph)
        kind = KINDS.get(image.type.removeprefix("tensor(").removesuffix(")"))
        return Opened(lambda pixels: session.run(None, {image.name: pixels})[0], tuple(image.shape), kind)

    def _options(self) -> Any:
        options = self._runtime.SessionOptions()
        options.log_severity_level = 3
        # Its threads wait for work by running in circles, on the cores that find motion: the network alone is 3 %
        # faster that way, a stream 7 % slower.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        if self.threads:
            options.intra_op_num_threads = self.threads
        return options

    def _without(self, graph: Path, pairs: Iterable[Pair], outputs: tuple[str, ...]) -> Any:
        """The graph with what each pair gives replaced by what stands in for it, and nothing computed for nobody."""
        model = self._onnx.load(str(graph))
        made = {name: node for node in model.graph.node for name in node.output}

        def origin(name: str) -> str:
            # A tensor that is also an output of the graph may have been copied to carry the output's name.
            while name in made and made[name].op_type == "Identity":
                name = made[name].input[0]
            return name

        instead = {origin(pair.given): origin(pair.skipped) for pair in pairs}
        for node in model.graph.node:
            for place, name in enumerate(node.input):
                seen = origin(name)
                while seen in instead:
                    seen = instead[seen]
                if seen != origin(name):
                    node.input[place] = seen
        wanted = [output for output in model.graph.output if output.name in outputs]
        del model.graph.output[:]
        model.graph.output.extend(wanted)
        needed, used = [output.name for output in wanted], set()
        made = {name: node for node in model.graph.node for name in node.output}
        while needed:
            name = needed.pop()
            if name in made and id(made[name]) not in used:
                used.add(id(made[name]))
                needed += made[name].input
        nodes = [node for node in model.graph.node if id(node) in used]
        del model.graph.node[:]
        model.graph.node.extend(nodes)
        read = {name for node in nodes for name in node.input}
        weights = [tensor for tensor in model.graph.initializer if tensor.name in read]
        del model.graph.initializer[:]
        model.graph.initializer.extend(weights)
        del model.graph.value_info[:]
        return model


class OpenVino:
    """OpenVINO on the CPU, or on what `device` names."""

    name = "openvino"
    ending = "blob"

    def __init__(self, threads: int | None = None, device: str = "CPU") -> None:
        try:
            import openvino
        except ImportError:
            raise ImportError('the runtime openvino needs: pip install "stmg[openvino]"') from None
        self._core = openvino.Core()
        self.version = str(openvino.__version__)
        self.where = device
        self.threads = threads
        # Where the processor has half precision OpenVINO would use it unasked, and no longer agree with PyTorch.
        self._settings: dict[str, Any] = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"}
        if threads:
            self._settings["INFERENCE_NUM_THREADS"] = threads

    def compile(self, graph: Path, pairs: Iterable[Pair], outputs: tuple[str, ...], kept: Path | None) -> Run:
        compiled = self._kept(kept)
        if compiled is None:
            compiled = self._core.compile_model(self._without(graph, pairs, outputs), self.where, self._settings)
            if kept is not None:
                with suppress(OSError), _place_for(kept) as part:  # a full disk, mostly: then nothing is kept
                    part.write_bytes(compiled.export_model().getvalue())
        order = [(output, next(iter(output.names & set(outputs)))) for output in compiled.outputs]
        infer = _each_thread(compiled)

        def run(inputs: Arrays) -> Arrays:
            found = infer(inputs)
            return {name: np.array(found[output]) for output, name in order}

        return run

    def _kept(self, kept: Path | None) -> Any:
        """The compiled graph on disk; None if there is none, or it is damaged."""
        if kept is None or not kept.is_file():
            return None
        try:
            os.utime(kept)
            return self._core.import_model(io.BytesIO(kept.read_bytes()), self.where, self._settings)
        except (RuntimeError, OSError):  # another process may have let it go just now
            with suppress(OSError):
                kept.unlink(missing_ok=True)
            return None

    def open(self, graph: Path) -> Opened:
        try:
            model = self._core.read_model(str(graph))
            compiled = self._core.compile_model(model, self.where, self._settings)
        except RuntimeError as error:
            raise ValueError(f"{graph} cannot be loaded: {str(error).splitlines()[0]}") from None
        (image,) = _only(model.inputs, graph)
        shape = tuple(side.get_length() if side.is_static else None for side in image.get_partial_shape())
        first, infer = compiled.output(0), _each_thread(compiled)
        kind = KINDS.get(image.get_element_type().get_type_name())
        return Opened(lambda pixels: np.array(infer([pixels])[first]), shape, kind)

    def _without(self, graph: Path, pairs: Iterable[Pair], outputs: tuple[str, ...]) -> Any:
        model = self._core.read_model(str(graph))
        instead = []
        for pair in pairs:
            given, skipped = (model.output(name).get_node().input_value(0) for name in (pair.given, pair.skipped))
            instead.append((given, skipped))
        for result in list(model.results):
            if not result.output(0).get_names() & set(outputs):
                model.remove_result(result)
        stands_in = {_place(given): skipped for given, skipped in instead}
        for given, skipped in instead:
            while _place(skipped) in stands_in:  # what stands in for it may be left out itself
                skipped = stands_in[_place(skipped)]
            for target in list(given.get_target_inputs()):
                target.replace_source_output(skipped)
        return model


def _each_thread(compiled: Any) -> Callable[[Any], Any]:
    """A call that several threads may make at once: a request of OpenVINO is for one of them."""
    own = threading.local()

    def infer(inputs: Any) -> Any:
        if not hasattr(own, "request"):
            own.request = compiled.create_infer_request()
        return own.request.infer(inputs, share_inputs=True)

    return infer


def _place(output: Any) -> tuple[str, int]:
    return output.get_node().get_name(), output.get_index()


@contextmanager
def _place_for(kept: Path) -> Iterator[Path]:
    """Where to write what is to be kept; it is moved there when it is whole."""
    kept.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=kept.parent, suffix=kept.suffix)
    os.close(handle)
    part = Path(name)
    try:
        yield part
        if part.stat().st_size:
            os.replace(part, kept)
    finally:
        part.unlink(missing_ok=True)


def _only(inputs: Any, graph: Path) -> Any:
    if len(inputs) != 1:
        raise ValueError(f"{graph} takes {len(inputs)} inputs; a plain network takes one image")
    return inputs


ENGINES: dict[str, type[OnnxRuntime] | type[OpenVino]] = {"onnxruntime": OnnxRuntime, "openvino": OpenVino}
