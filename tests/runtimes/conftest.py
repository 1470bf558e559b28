import pytest
import torch

from stmg import accelerate
from stmg.card import Card
from stmg.export import export
from stmg.networks import build

SIZE = (64, 96)


@pytest.fixture(scope="session")
def network():
    torch.manual_seed(0)
    gated = accelerate(
        build("small", 5), torch.zeros(1, 3, *SIZE), mask_generator=True, two_weight_sets=True, timed=False
    )
    with torch.no_grad():
        for parameter in gated.partial_network.parameters():
            parameter.mul_(1.05)  # the second weights shall not be the first
    return gated


@pytest.fixture(scope="session", params=["onnx", "openvino"])
def folder(request, network, tmp_path_factory):
    out = tmp_path_factory.mktemp(request.param)
    export(network, Card("small", 5, SIZE, class_names=tuple("abcde")), SIZE, request.param, out)
    return out


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"
