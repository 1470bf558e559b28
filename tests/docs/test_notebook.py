"""The example notebook runs from top to bottom, and shows the outputs that it contains."""

from __future__ import annotations

import re

import pytest

from documents import ROOT
from waiting import PATIENCE

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))


def printed(cell) -> str:
    return "".join(output.get("text", "") for output in cell.get("outputs", ()))


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_runs(path, tmp_path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    resources = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(notebook, timeout=PATIENCE, startup_timeout=PATIENCE, resources=resources).execute()
    text = "".join(map(printed, notebook.cells))
    miou = {name.strip(): float(value) for name, value in re.findall(r"^(.+?) +mIoU +([\d.]+)", text, re.MULTILINE)}
    assert miou["every frame"] > miou["offline"] > miou["online"] > miou["labels copied"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_is_stored_without_outputs(path):
    cells = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    assert cells
    assert not any(cell.outputs for cell in cells)
