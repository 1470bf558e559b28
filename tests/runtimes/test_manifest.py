import json
from dataclasses import replace

import pytest

from stmg.errors import ModelError
from stmg.runtimes.manifest import MANIFEST, GraphFile, Manifest, read_manifest, write_manifest
from stmg.streaming.cost import NetworkCost

FULL = GraphFile("full.onnx", ("image",), ("logits", "features0"))
PARTIAL = GraphFile("partial.onnx", ("image", "changed", "before0"), ("logits", "features0"))
EXAMPLE = Manifest(
    id="1",
    kind="onnx",
    bits=32,
    size=(64, 96),
    graphs={"full": FULL, "partial": PARTIAL},
    costs=NetworkCost(10, (3, 4), 1, 2, 20, (5, 6), 7),
    card={"network": "small", "num_classes": 5, "partial_scale": 0.5},
    blocks=(True, False),
)


@pytest.fixture
def export(tmp_path):
    for graph in (FULL, PARTIAL):
        (tmp_path / graph.file).write_bytes(b"")
    write_manifest(tmp_path, EXAMPLE)
    return tmp_path


def test_what_is_written_is_read(export):
    manifest = read_manifest(export)
    assert manifest == EXAMPLE
    assert (manifest.num_classes, manifest.partial_scale) == (5, 0.5)
    assert replace(manifest, card={"num_classes": 5}).partial_scale == 1.0


def change(content, key, value):
    *groups, last = key.split(".")
    for group in groups:
        content = content[group]
    if value is None:
        content.pop(last)
    else:
        content[last] = value


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("format", 9, "another format than 1"),
        ("id", None, "id is missing"),
        ("bits", "8", "bits is a whole number; got '8'"),
        ("kind", "coreml", "kind is onnx or openvino; got 'coreml'"),
        ("size", [64], r"size is a list of 2; got \[64\]"),
        ("size", ["64", "96"], "size is a whole number; got '64'"),
        ("graphs", [], r"graphs has names and values; got \[\]"),
        ("graphs.full", None, "graphs has one called full; got partial"),
        ("graphs.full.outputs", "logits", "graphs.full.outputs is a list of any length; got 'logits'"),
        ("blocks", [True], "blocks has 2 values, as costs.blocks has; got 1"),
        ("graphs.partial", None, "graphs has one called partial where there are blocks"),
        ("costs.network", None, "costs.network is missing"),
        ("costs.blocks", [1.5], "costs.blocks is a whole number; got 1.5"),
        ("graphs.full.file", "../full.onnx", r"graphs.full.file: '../full.onnx' is no name inside"),
        ("graphs.full.file", "/etc/passwd", "graphs.full.file: '/etc/passwd' is no name inside"),
        ("graphs.full.outputs", [], r"graphs.full.outputs has a name; got \[\]"),
        ("size", [60000, 60000], "size has sides up to 32766 and 67 megapixels; 60000x60000 is too large"),
        ("costs.block_params", [], "costs.block_params has 2 values"),
        ("costs.network", 1e999, "costs.network is a finite number"),
        ("card.num_classes", None, "card.num_classes is a whole number; got None"),
    ],
)
def test_a_wrong_key_is_named_with_its_file(export, key, value, message):
    content = json.loads((export / MANIFEST).read_text())
    change(content, key, value)
    (export / MANIFEST).write_text(json.dumps(content))
    with pytest.raises(ModelError, match=rf"{MANIFEST} .*{message}"):
        read_manifest(export)


def test_an_export_made_before_partial_frames_had_one_set_of_blocks_holds_whole_frames(export):
    content = json.loads((export / MANIFEST).read_text())
    del content["blocks"]
    content["pairs"] = [[0, "skip0", "block0"]]
    content["graphs"]["partial"]["outputs"] += ["skip0", "block0"]
    (export / MANIFEST).write_text(json.dumps(content))
    assert read_manifest(export).blocks is None


def test_what_is_no_export_or_lacks_a_graph_is_refused(export, tmp_path):
    with pytest.raises(ModelError, match=r"is no export: it has no export\.json"):
        read_manifest(tmp_path / "nowhere")
    (export / "full.onnx").unlink()
    with pytest.raises(ModelError, match=r"lacks full\.onnx: export it again"):
        read_manifest(export)
    for text in ("{", "[1]"):
        (export / MANIFEST).write_text(text)
        with pytest.raises(ModelError, match=r"is damaged|not values by name"):
            read_manifest(export)
