"""Readers of files: any JSON or YAML gives a value, or an error that a user can fix."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reliability.mutations import ODD_VALUES, list_paths
from reliability.samples import RECIPE, SETTINGS
from stmg.data.folder import open_folder
from stmg.errors import StmgError
from stmg.evaluation.machine import this_machine
from stmg.evaluation.report import render_html
from stmg.evaluation.results import AblationResult, AblationTable
from stmg.evaluation.rows import FrameCost, Row
from stmg.evaluation.storage import read_result, to_json
from stmg.evaluation.way import Way
from stmg.models.card import Card, card_json, read_card
from stmg.models.correctors import CorrectorCard, read_corrector_card
from stmg.models.spec import read_settings
from stmg.runtimes.manifest import read_manifest
from stmg.training.recipe import read_recipe

SIZE = (64, 96)
CARD = json.loads(card_json(Card("small", 2, SIZE, class_names=("road", "car"), palette=((1, 2, 3), (4, 5, 6)))))
MANIFEST = {
    "format": 1,
    "id": "1",
    "kind": "onnx",
    "bits": 32,
    "size": list(SIZE),
    "graphs": {
        "full": {"file": "full.onnx", "inputs": ["image"], "outputs": ["logits", "features"]},
        "partial": {"file": "full.onnx", "inputs": ["image"], "outputs": ["logits", "a", "b"]},
    },
    "pairs": [[0, "a", "b"]],
    "costs": {
        "network": 9,
        "blocks": [3],
        "head": 1,
        "mask_generator": 0,
        "params": 5,
        "block_params": [2],
        "mask_params": 0,
    },
    "card": CARD,
}
CORRECTOR = asdict(CorrectorCard(num_classes=2, width=4, size=SIZE, macs=1, params=1, motion="dis"))
DATASET = {
    "classes": ["road", {"name": "car", "color": [1, 2, 3]}],
    "ignore": 255,
    "train": [{"frames": "images", "labels": "labels", "rate": 15}],
}
ROW = Row(way=Way(kind="ablation", title="a"), miou=1.0, cost=FrameCost(1, 1, 1))
RESULT = json.loads(
    to_json(
        AblationResult(
            machine=this_machine(),
            model="model",
            data="data",
            split="val",
            size=SIZE,
            settings="drift",
            runtime="PyTorch",
            seeds=1,
            frames=3,
            base=ROW,
            tables=(AblationTable("masks", (ROW,)),),
        )
    )
)


class Reader(NamedTuple):
    """A file that is read."""

    file: str
    content: Any
    """Of a whole one."""
    read: Callable[[Path], object]


READERS = {
    "card": Reader("stmg.json", CARD, lambda path: read_card(path.parent).settings()),
    "manifest": Reader("export.json", MANIFEST, lambda path: read_manifest(path.parent)),
    "corrector": Reader("corrector.json", CORRECTOR, lambda path: read_corrector_card(path.parent)),
    "settings as YAML": Reader("settings.yaml", SETTINGS, read_settings),
    "settings as JSON": Reader("settings.json", SETTINGS, read_settings),
    "recipe": Reader("recipe.yaml", RECIPE, read_recipe),
    "dataset": Reader("dataset.yaml", DATASET, open_folder),
    "result": Reader("ablation.json", RESULT, lambda path: render_html([read_result(path)])),
}

values = st.recursive(
    st.sampled_from(ODD_VALUES) | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=6,
)


def write(folder: Path, reader: Reader, content: Any) -> Path:
    """A file with this content, and beside it what it names."""
    for name in ("images", "labels"):
        (folder / name).mkdir()
        (folder / name / "0.png").write_bytes(b"")
    (folder / "full.onnx").write_bytes(b"")
    path = folder / reader.file
    text = json.dumps(content) if path.suffix == ".json" else yaml.safe_dump(content, allow_unicode=True)
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    return path


@pytest.mark.parametrize("name", READERS)
def test_a_whole_file_is_read(name, tmp_path):
    reader = READERS[name]
    assert reader.read(write(tmp_path, reader, reader.content)) is not None


@pytest.mark.parametrize("name", READERS)
@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_what_does_not_fit_is_refused_as_a_mistake_of_the_user(name, data):
    reader = READERS[name]
    content = copy.deepcopy(reader.content)
    *above, last = data.draw(st.sampled_from(list_paths(content)[1:]), "place")
    parent = content
    for key in above:
        parent = parent[key]
    if data.draw(st.booleans(), "whether it goes"):
        del parent[last]
    else:
        parent[last] = data.draw(values, "instead")
    with TemporaryDirectory() as folder:
        path = write(Path(folder), reader, content)
        with suppress(StmgError):
            reader.read(path)


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("text", ["[]", "3", '"a"', "{", "[" * 100_000, "\x00", "{}" * 2], ids=lambda text: text[:3])
def test_what_holds_something_else_is_refused(name, text, tmp_path):
    reader = READERS[name]
    path = write(tmp_path, reader, reader.content)
    path.write_text(text)
    with pytest.raises(StmgError):
        reader.read(path)


@pytest.mark.parametrize("name", READERS)
def test_what_is_no_utf8_is_refused(name, tmp_path):
    reader = READERS[name]
    path = write(tmp_path, reader, reader.content)
    path.write_bytes(b"\xff\xfe\xe9" + path.read_bytes())
    with pytest.raises(StmgError):
        reader.read(path)
