"""Replacing an earlier export."""

import pytest

from stmg.models.replacement import replace_export
from stmg.runtimes.manifest import MANIFEST, GraphFile, Manifest, write_manifest
from stmg.streaming.cost import NetworkCost

KINDS = {"onnx": ("full.onnx", "partial.onnx"), "openvino": ("full.xml", "full.bin")}


def export(folder, kind):
    """Write an export whose files are empty."""
    with replace_export(folder) as part:
        for name in KINDS[kind]:
            (part / name).touch()
        graphs = [GraphFile(name, ("image",), ("logits",)) for name in KINDS[kind] if not name.endswith(".bin")]
        manifest = Manifest(
            id="1",
            kind=kind,
            bits=32,
            size=(64, 96),
            graphs={graph.file.partition(".")[0]: graph for graph in graphs},
            costs=NetworkCost(1, (), 0, 0, 1, (), 0),
            card={"num_classes": 5},
        )
        write_manifest(part, manifest)


@pytest.mark.parametrize("kinds", [("onnx", "openvino"), ("openvino", "onnx")])
def test_a_folder_holds_one_export_and_what_others_put_there(tmp_path, kinds):
    mine = {"mine.onnx", "full.bin.md", "encode.onnx"}
    for name in mine:
        (tmp_path / name).touch()
    for kind in kinds:
        export(tmp_path, kind)
        assert {path.name for path in tmp_path.iterdir()} == {*KINDS[kind], MANIFEST, *mine}


def test_what_a_killed_export_left_is_removed(tmp_path):
    (tmp_path / ".export-dead").mkdir()
    (tmp_path / ".export-dead" / "full.onnx").touch()
    export(tmp_path, "onnx")
    assert {path.name for path in tmp_path.iterdir()} == {*KINDS["onnx"], MANIFEST}
