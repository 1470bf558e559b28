"""The manifest of an export, export.json: which graphs there are, for which frames, and what they cost."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from stmg.errors import ModelError, SettingsError, require
from stmg.files import build_from_file, path_inside, read_mapping, write_atomically
from stmg.streaming.cost import NetworkCost
from stmg.video.frames import check_size

MANIFEST = "export.json"
FORMAT = 1
FORMATS = ("onnx", "openvino")
OUTPUTS = {"encode": ("encoded",), "compare": ("changed",)}
"""Output names of graphs that have their own."""
EARLIER = "pairs"
"""Key in exports from before partial frames had a fixed set of blocks. These exports hold whole frames."""


@dataclass(frozen=True)
class GraphFile:
    """A graph of the export."""

    file: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """Description of an export."""

    id: str
    """Unique identifier of this export."""
    kind: str
    """onnx or openvino."""
    bits: int
    """Bits per weight of the network: 32, or 8 for INT8."""
    size: tuple[int, int]
    """(H, W) of the frames it computes."""
    graphs: Mapping[str, GraphFile]
    """full, and where there are partial frames partial, encode and compare. The first output of full and partial are
    the logits, whatever they are called; features follow."""
    costs: NetworkCost
    card: Mapping[str, object]
    """Card of the exported checkpoint, as JSON."""
    blocks: tuple[bool, ...] | None = None
    """The blocks that run on partial frames; None if it computes whole frames only."""

    def __post_init__(self) -> None:
        require(self.kind in FORMATS, f"kind is {' or '.join(FORMATS)}", repr(self.kind))
        names = ", ".join(self.graphs) or "none"
        require("full" in self.graphs, "graphs has one called full", names)
        require(
            ("encode" in self.graphs) == ("compare" in self.graphs), "graphs has encode and compare, or none", names
        )
        for name, graph in self.graphs.items():
            wanted = OUTPUTS.get(name, graph.outputs)
            fits = bool(graph.outputs) and set(wanted) <= set(graph.outputs)
            require(fits, f"graphs.{name}.outputs has {', '.join(wanted) or 'a name'}", list(graph.outputs))
        check_size(self.size)
        self._check_blocks()
        number, scale = self.card.get("num_classes"), self.card.get("partial_scale", 1.0)
        require(isinstance(number, int), "card.num_classes is a whole number", repr(number))
        require(isinstance(scale, int | float), "card.partial_scale is a number", repr(scale))

    def _check_blocks(self) -> None:
        blocks = len(self.costs.blocks)
        same = len(self.costs.block_params) == blocks
        require(same, f"costs.block_params has {blocks} values, as costs.blocks has", len(self.costs.block_params))
        if self.blocks is not None:
            require(len(self.blocks) == blocks, f"blocks has {blocks} values, as costs.blocks has", len(self.blocks))
        has = "partial" in self.graphs
        require(has or self.blocks is None, "graphs has one called partial where there are blocks", list(self.graphs))

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
        "costs": manifest.costs._asdict(),
        "card": manifest.card,
        "blocks": manifest.blocks,
    }
    write_atomically(folder / MANIFEST, (json.dumps(content, indent=1) + "\n").encode())


def read_manifest(folder: Path) -> Manifest:
    """Read export.json, or raise an error that names the key that is wrong."""
    path = folder / MANIFEST
    if not path.is_file():
        raise ModelError(f"{folder} is no export: it has no {MANIFEST}")
    content = read_mapping(path, ModelError, format=FORMAT)
    content.pop(EARLIER, None)
    manifest = build_from_file(Manifest, content, path, ModelError)
    for name, graph in manifest.graphs.items():
        try:
            file = path_inside(folder, graph.file)
        except SettingsError as error:
            raise ModelError(f"{path} is damaged: graphs.{name}.file: {error}") from error
        if not file.is_file():
            raise ModelError(f"{folder} lacks {graph.file}: export it again")
    return manifest
