"""Ways to skip blocks outside PyTorch: a gate as a tensor, an If for each block, a graph for each pattern.

The same network on the same frame with the same blocks closed, in turns; milliseconds and what each saves of the whole.
Then what a compiled pattern takes in memory.

    python benchmarks/gating.py [--network ddrnet23-slim] [--size 360x480] [--repeats 30]
"""

from __future__ import annotations

import argparse
import resource
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper
from rich.console import Console
from rich.table import Table

from stmg.gating.accelerate import accelerate
from stmg.models.card import Card
from stmg.models.export import export_network
from stmg.networks import build
from stmg.runtimes.engine import Pair
from stmg.runtimes.engines import ENGINES
from stmg.runtimes.manifest import read_manifest
from stmg.runtimes.onnxruntime import leave_out_blocks
from stmg.runtimes.patterns import PATTERNS
from turns import in_turns


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", default="ddrnet23-slim")
    parser.add_argument("--size", default="360x480")
    parser.add_argument("--repeats", type=int, default=30)
    arguments = parser.parse_args()
    height, width = map(int, arguments.size.split("x"))
    torch.manual_seed(0)
    network = accelerate(build(arguments.network, 19), torch.zeros(1, 3, height, width))
    table = Table("", "", "ms", "of the whole", title=f"{arguments.network}, {arguments.size}, every block closed")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        export_network(network, Card(arguments.network, 19, (height, width)), (height, width), "onnx", folder)
        manifest = read_manifest(folder)
        partial, pairs = manifest.graphs["partial"], list(manifest.pairs)
        graph = folder / partial.file
        taps = {name for pair in pairs for name in (pair.skipped, pair.given)}
        outputs = tuple(name for name in partial.outputs if name not in taps)
        for how, change in (("tensor", _with_tensors), ("if", _with_ifs)):
            onnx.save(change(onnx.load(str(graph)), pairs, outputs), str(folder / f"{how}.onnx"))
        inputs = _inputs(onnx.load(str(graph)))
        gates = {f"gate{number}": np.zeros((), np.bool_) for number in range(len(pairs))}
        taken: dict[str, tuple[float, float]] = {}
        for engine_name, kind in ENGINES.items():
            engine = kind()
            ways: dict[str, Callable[[], Any]] = {}
            for how, file, closed, more in (
                ("whole", graph, [], {}),
                ("gate as a tensor", folder / "tensor.onnx", [], gates),
                ("If for each block", folder / "if.onnx", [], gates),
                ("graph for each pattern", graph, pairs, {}),
            ):
                try:
                    run = engine.compile(file, closed, outputs, None)
                except Exception as error:
                    table.add_row(engine_name, how, "-", str(error).splitlines()[0][:60])
                    continue
                ways[how] = lambda run=run, more=more: run({**inputs, **more})
            taken[engine_name] = _memory(engine, graph, pairs, outputs, inputs)
            spent = in_turns(ways, arguments.repeats)
            for how, times in spent.items():
                table.add_row(engine_name, how, f"{median(times):.1f}", f"{median(times) / median(spent['whole']):.0%}")
    console = Console(width=110)
    console.print(table)
    for engine_name, (pattern, file) in taken.items():
        console.print(f"{engine_name}: a pattern takes {pattern:.0f} MB of memory; the graph's file has {file:.0f} MB")


def _memory(
    engine: Any, graph: Path, pairs: list[Pair], outputs: tuple[str, ...], inputs: dict[str, Any]
) -> tuple[float, float]:
    """Megabytes that each of several compiled patterns, once it ran, adds to the process; those of the graph's file."""
    runs = [engine.compile(graph, [], outputs, None)]
    runs[0](inputs)
    before = _resident()
    for number in range(PATTERNS):
        runs.append(engine.compile(graph, pairs[number % len(pairs) :][:1], outputs, None))
        runs[-1](inputs)
    grown = (_resident() - before) / PATTERNS
    files = [path for path in graph.parent.iterdir() if path.stem == graph.stem]
    return grown, sum(path.stat().st_size for path in files) / 1e6


def _resident() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


def _inputs(model: Any) -> dict[str, Any]:
    random = np.random.default_rng(0)
    inputs = {}
    for value in model.graph.input:
        shape = [side.dim_value for side in value.type.tensor_type.shape.dim]
        bytes_ = value.type.tensor_type.elem_type == TensorProto.UINT8
        inputs[value.name] = random.integers(0, 255, shape, np.uint8) if bytes_ else random.random(shape, np.float32)
    return inputs


def _with_tensors(model: Any, pairs: list[Pair], outputs: tuple[str, ...]) -> Any:
    """Every block runs, and a gate chooses what is handed on."""
    return _gated(
        model,
        pairs,
        outputs,
        lambda gate, given, skipped, result, *_: [helper.make_node("Where", [gate, given, skipped], [result])],
    )


def _with_ifs(model: Any, pairs: list[Pair], outputs: tuple[str, ...]) -> Any:
    """The nodes of a block inside the branch of an If."""
    return _gated(model, pairs, outputs, _if)


def _if(gate: str, given: str, skipped: str, result: str, nodes: list[Any], sides: list[int]) -> list[Any]:
    shape = helper.make_tensor_value_info(f"{result}_run", TensorProto.FLOAT, sides)
    other = helper.make_tensor_value_info(f"{result}_skip", TensorProto.FLOAT, sides)
    run = helper.make_graph([*nodes, helper.make_node("Identity", [given], [shape.name])], "run", [], [shape])
    skip = helper.make_graph([helper.make_node("Identity", [skipped], [other.name])], "skip", [], [other])
    return [helper.make_node("If", [gate], [result], then_branch=run, else_branch=skip)]


def _gated(model: Any, pairs: list[Pair], outputs: tuple[str, ...], make: Callable[..., list[Any]]) -> Any:
    graph = model.graph
    leave_out_blocks(graph, [], (*outputs, *(name for pair in pairs for name in (pair.skipped, pair.given))))
    producers = {name: node for node in graph.node for name in node.output}
    known = onnx.shape_inference.infer_shapes(model).graph
    shapes = {
        value.name: [side.dim_value for side in value.type.tensor_type.shape.dim]
        for value in (*known.value_info, *known.output)
    }

    def origin(name: str) -> str:
        while name in producers and producers[name].op_type == "Identity":
            name = producers[name].input[0]
        return name

    for number, pair in enumerate(pairs):
        skipped, given, result = origin(pair.skipped), origin(pair.given), f"gated{number}"
        inside = _between(graph.node, skipped, given)
        users = [node for node in graph.node if given in node.input and node.op_type != "Identity"]
        block = [node for node in graph.node if id(node) in inside]
        new = make(f"gate{number}", given, skipped, result, block, shapes[given])
        for node in users:
            for index, name in enumerate(node.input):
                if name == given:
                    node.input[index] = result
        is_if = new[0].op_type == "If"
        rest = [node for node in graph.node if not (is_if and id(node) in inside)]
        read = {skipped, *(name for node in (block if is_if else new) for name in node.input)}
        where = 1 + max((index for index, node in enumerate(rest) if read & set(node.output)), default=-1)
        rest[where:where] = new
        del graph.node[:]
        graph.node.extend(rest)
        producers = {name: node for node in graph.node for name in node.output}
        graph.input.append(helper.make_tensor_value_info(f"gate{number}", TensorProto.BOOL, []))
    wanted = [output for output in graph.output if output.name in outputs]
    del graph.output[:]
    graph.output.extend(wanted)
    nodes = _needed(list(graph.node), outputs)
    del graph.node[:]
    graph.node.extend(nodes)
    return model


def _needed(nodes: list[Any], outputs: tuple[str, ...]) -> list[Any]:
    """Those nodes that the outputs need, in their order."""
    wanted, needed = set(outputs), []
    for node in reversed(nodes):
        if wanted & set(node.output):
            needed.append(node)
            wanted |= set(node.input)
            branches = [attribute.g for attribute in node.attribute if attribute.HasField("g")]
            wanted |= {name for branch in branches for inner in branch.node for name in inner.input}
    return needed[::-1]


def _between(nodes: Any, start: str, end: str) -> set[int]:
    """Nodes that `end` needs beyond `start`."""
    producers = {name: node for node in nodes for name in node.output}
    inside: set[int] = set()
    needed = [end]
    while needed:
        name = needed.pop()
        if name != start and name in producers and id(producers[name]) not in inside:
            inside.add(id(producers[name]))
            needed += producers[name].input
    after: set[str] = {start}
    for node in nodes:  # in order: what does not depend on the start stays outside
        if id(node) in inside and after & set(node.input):
            after |= set(node.output)
        elif id(node) in inside:
            inside.discard(id(node))
    return inside


if __name__ == "__main__":
    main()
