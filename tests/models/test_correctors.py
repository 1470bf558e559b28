"""Correctors when packages are missing."""

import importlib.util
import sys

import pytest
import torch

import stmg
from graphs import save_one_channel
from stmg.errors import MissingPackageError, install_command
from stmg.models.correctors import GRAPH, describe_corrector, load_corrector, save_corrector
from stmg.models.model_files import list_graph_files
from stmg.networks.corrector import SHAPES, Corrector
from stmg.runtimes.onnxruntime import OnnxRuntime
from stmg.runtimes.torch_corrector import TorchCorrector

SIZE = (48, 64)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A corrector that was saved where onnxscript is not installed."""
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "onnxscript" else find_spec(name))
    torch.manual_seed(0)
    module = Corrector(2, SHAPES[0])
    save_corrector(module, describe_corrector(module, SIZE, "dis", between=True), tmp_path / "adapted")
    return tmp_path / "adapted"


def test_without_a_graph_pytorch_runs_the_weights_beside_any_engine(folder, tmp_path):
    assert not (folder / GRAPH).exists()
    assert isinstance(load_corrector(folder, OnnxRuntime(1)), TorchCorrector)
    graph = save_one_channel(tmp_path / "graph.onnx", sigmoid=False)
    segmenter = stmg.load(graph, corrector=folder, motion="dis")
    assert isinstance(segmenter.settings.corrector, TorchCorrector)


def test_without_a_graph_and_pytorch_it_says_what_is_missing(folder, monkeypatch):
    monkeypatch.delitem(sys.modules, "stmg.runtimes.torch_corrector")
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingPackageError, match=r"needs PyTorch here, as corrector.onnx is missing"):
        load_corrector(folder, OnnxRuntime(1))


def test_the_files_of_an_onnx_graph_need_onnx(tmp_path, monkeypatch):
    path = save_one_channel(tmp_path / "graph.onnx", sigmoid=False)
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(MissingPackageError) as error:
        list_graph_files(path)
    assert install_command("export") in str(error.value)
