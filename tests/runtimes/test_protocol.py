import numpy as np
import pytest
import torch

from stmg.errors import ModelError, SettingsError
from stmg.runtimes import make_runtime
from stmg.runtimes.callable import CallableRuntime
from stmg.runtimes.engines import ENGINES
from stmg.runtimes.exported import ExportedRuntime
from stmg.runtimes.graph import GraphRuntime
from stmg.runtimes.torch import TorchRuntime
from stmg.streaming.runtime import Runtime
from stmg.streaming.schedulers import Level
from zoo import colors, panning

SIZE = (64, 96)


@pytest.fixture(params=["torch", "callable", "exported", "graph"])
def runtime(request, network, tmp_path):
    if request.param == "torch":
        return TorchRuntime(network, device="cpu")
    if request.param == "callable":
        return CallableRuntime(colors)
    engine = ENGINES["onnxruntime"](1)
    if request.param == "exported":
        return ExportedRuntime(request.getfixturevalue("export_to")("onnx"), engine)
    path, example = tmp_path / "graph.onnx", (torch.zeros(1, 3, *SIZE),)
    torch.onnx.export(network.plain().eval(), example, str(path), dynamo=True, external_data=False, verbose=False)
    return GraphRuntime(path, engine)


@pytest.mark.slow
def test_every_runtime_has_every_member_of_the_protocol(runtime):
    assert isinstance(runtime, Runtime)
    assert runtime.description
    assert runtime.input_size in (None, SIZE)
    assert runtime.num_classes in (None, 5)
    assert (runtime.num_blocks > 0) == runtime.has_mask_generator
    assert isinstance(runtime.notes, tuple)
    runtime.expect_partial()
    with runtime.exact_patterns(), runtime.exact_patterns():
        prepared = runtime.prepare(panning(1, SIZE)[0])
    logits = runtime.full(prepared).logits
    share = np.full((4, 4), 0.5, np.float32)
    assert runtime.labels(runtime.fuse(logits, logits, None, share), SIZE).shape == SIZE
    assert runtime.probability(logits, SIZE) is None  # of several classes
    assert runtime.threshold == 0.5
    assert runtime.cost(SIZE, Level.CARRY, (False,) * runtime.num_blocks, 1.0, False).macs == 0


def test_a_runtime_stays_itself_and_anything_else_gets_one(network):
    black_box = CallableRuntime(colors)
    assert make_runtime(black_box) is black_box
    assert isinstance(make_runtime(colors), CallableRuntime)
    assert isinstance(make_runtime(network, "cpu"), TorchRuntime)


def test_what_is_no_network_and_a_device_for_another_runtime_are_refused():
    with pytest.raises(ModelError, match="a network is a torch module, a runtime or a callable"):
        make_runtime(3)
    for network in (colors, CallableRuntime(colors)):
        with pytest.raises(SettingsError, match="device='cuda' is for PyTorch networks"):
            make_runtime(network, "cuda")
