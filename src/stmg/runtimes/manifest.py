"""The manifest of an export, export.json: which graphs there are, for which frames, and what they cost."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from stmg.errors import ModelError
from stmg.files import write_atomically
from stmg.runtimes.engine import Pair
from stmg.streaming.cost import NetworkCost

MANIFEST = "export.json"
FORMAT = 1
FORMATS = ("onnx", "openvino")

Value = TypeVar("Value")


@dataclass(frozen=True)
class GraphFile:
    """A graph of the export."""

    file: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """What an export is."""

    id: str
    """Another one each time something is exported."""
    kind: str
    """onnx or openvino."""
    bits: int
    """Of the network's weights: 32, or 8 for INT8."""
    size: tuple[int, int]
    """(H, W) of the frames it computes."""
    graphs: Mapping[str, GraphFile]
    """full, and where the network has them partial, encode and compare. The first output of full and partial are the
    logits, whatever they are called; features follow, and in partial what pairs name."""
    pairs: tuple[Pair, ...]
    costs: NetworkCost
    card: Mapping[str, Any]
    """Of the checkpoint it came from, as JSON."""

    @property
    def num_classes(self) -> int:
        number: int = self.card["num_classes"]
        return number

    @property
    def partial_scale(self) -> float:
        """The scale of partial frames, which is part of their graph."""
        scale: float = self.card.get("partial_scale", 1.0)
        return scale


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write export.json, whole or not at all."""
    content = {
        "format": FORMAT,
        "id": manifest.id,
        "kind": manifest.kind,
        "bits": manifest.bits,
        "size": manifest.size,
        "graphs": {name: vars(graph) for name, graph in manifest.graphs.items()},
        "pairs": manifest.pairs,
        "costs": manifest.costs._asdict(),
        "card": manifest.card,
    }
    write_atomically(folder / MANIFEST, (json.dumps(content, indent=1) + "\n").encode())


def read_manifest(folder: Path) -> Manifest:
    """Read export.json, or raise an error that names the key that is wrong."""
    path = folder / MANIFEST
    try:
        content = json.loads(path.read_text())
    except OSError as error:
        raise ModelError(f"{folder} is no export: {error.strerror}: {MANIFEST}") from None
    except ValueError as error:
        raise ModelError(f"{path} is damaged: {error}") from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ModelError(f"{path} has another format than {FORMAT}: it needs another version of stmg")
    top = _Group(path, content, "")
    graphs = {name: _read_graph(top.group("graphs").group(name)) for name in top.group("graphs").content}
    costs, card = top.group("costs"), top.group("card")
    kind = top.get("kind", str)
    if kind not in FORMATS:
        raise ModelError(f"{path} is damaged: kind is {' or '.join(FORMATS)}; got {kind!r}")
    if "full" not in graphs:
        raise ModelError(f"{path} is damaged: graphs.full is missing")
    card.get("num_classes", int)
    manifest = Manifest(
        id=top.get("id", str),
        kind=kind,
        bits=top.get("bits", int),
        size=_read_size(top),
        graphs=graphs,
        pairs=tuple(_read_pair(top, item) for item in top.get("pairs", list)),
        costs=NetworkCost(
            network=costs.get("network", int),
            blocks=costs.items("blocks", int),
            head=costs.get("head", int),
            mask_generator=costs.get("mask_generator", int),
            params=costs.get("params", int),
            block_params=costs.items("block_params", int),
            mask_params=costs.get("mask_params", int),
        ),
        card=card.content,
    )
    for graph in graphs.values():
        if not (folder / graph.file).is_file():
            raise ModelError(f"{folder} lacks {graph.file}: export it again")
    return manifest


@dataclass(frozen=True)
class _Group:
    """A JSON object whose values are checked as they are read."""

    path: Path
    content: dict[str, Any]
    name: str

    def get(self, key: str, kind: type[Value]) -> Value:
        full = self._full(key)
        if key not in self.content:
            raise ModelError(f"{self.path} is damaged: {full} is missing")
        value = self.content[key]
        if not isinstance(value, kind) or isinstance(value, bool):
            raise ModelError(f"{self.path} is damaged: {full} is no {kind.__name__}; got {str(value)[:40]!r}")
        return value

    def group(self, key: str) -> _Group:
        return _Group(self.path, self.get(key, dict), self._full(key))

    def items(self, key: str, kind: type[Value]) -> tuple[Value, ...]:
        values = self.get(key, list)
        if not all(isinstance(value, kind) for value in values):
            raise ModelError(f"{self.path} is damaged: {self._full(key)} is no list of {kind.__name__}")
        return tuple(values)

    def _full(self, key: str) -> str:
        return f"{self.name}.{key}".lstrip(".")


def _read_graph(group: _Group) -> GraphFile:
    return GraphFile(group.get("file", str), group.items("inputs", str), group.items("outputs", str))


def _read_size(top: _Group) -> tuple[int, int]:
    size = top.items("size", int)
    if len(size) != 2:
        raise ModelError(f"{top.path} is damaged: size is no height and width; got {size}")
    return size[0], size[1]


def _read_pair(top: _Group, item: object) -> Pair:
    match item:
        case [int(block), str(skipped), str(given)]:
            return Pair(block, skipped, given)
    raise ModelError(f"{top.path} is damaged: pairs holds {item!r}, no [block, skipped, given]")
