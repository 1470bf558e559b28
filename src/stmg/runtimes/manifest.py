"""The manifest of an export, export.json: which graphs there are, for which frames, and what they cost."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from stmg.errors import ModelError, SettingsError, require
from stmg.files import build_dataclass, write_atomically
from stmg.runtimes.engine import Pair
from stmg.streaming.cost import NetworkCost

MANIFEST = "export.json"
FORMAT = 1
FORMATS = ("onnx", "openvino")


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
    card: Mapping[str, object]
    """Of the checkpoint it came from, as JSON."""

    def __post_init__(self) -> None:
        require(self.kind in FORMATS, f"kind is {' or '.join(FORMATS)}", repr(self.kind))
        require("full" in self.graphs, "graphs has one called full", ", ".join(self.graphs) or "none")
        number, scale = self.card.get("num_classes"), self.card.get("partial_scale", 1.0)
        require(isinstance(number, int), "card.num_classes is a whole number", repr(number))
        require(isinstance(scale, int | float), "card.partial_scale is a number", repr(scale))

    @property
    def num_classes(self) -> int:
        number = self.card["num_classes"]
        assert isinstance(number, int)
        return number

    @property
    def partial_scale(self) -> float:
        """The scale of partial frames, which is part of their graph."""
        scale = self.card.get("partial_scale", 1.0)
        assert isinstance(scale, int | float)
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
    if not isinstance(content, dict) or content.pop("format", None) != FORMAT:
        raise ModelError(f"{path} has another format than {FORMAT}: it needs another version of stmg")
    try:
        manifest = build_dataclass(Manifest, content)
    except SettingsError as error:
        raise ModelError(f"{path} is damaged: {error}") from None
    for graph in manifest.graphs.values():
        if not (folder / graph.file).is_file():
            raise ModelError(f"{folder} lacks {graph.file}: export it again")
    return manifest
