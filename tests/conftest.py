from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from filelock import FileLock

from environments import build_wheel
from exporting import list_operations_once
from stmg.data.synthetic.scene import RenderedVideo
from stmg.gating.accelerate import accelerate
from stmg.models.card import Card
from stmg.models.graphs import export_network
from stmg.networks import build
from stmg.runtimes.torch import TorchRuntime
from zoo import panning

# The tests' tensors are tiny, and threads that wait for each other on a busy machine take far longer than the work.
torch.set_num_threads(1)
os.environ.setdefault("OMP_NUM_THREADS", "1")  # for the processes that tests start

sys.modules.setdefault("openvino_telemetry", None)  # as stmg imports OpenVINO: it sends nothing, and waits for nobody

list_operations_once()

EXPORT_SIZE = (64, 96)


@pytest.fixture(scope="module")
def model():
    """A small network of five classes."""
    torch.manual_seed(0)
    return build("small", 5).eval()


@pytest.fixture(scope="module")
def plain(model):
    """It as it is, gated and nothing else."""
    return TorchRuntime(accelerate(model, torch.zeros(1, 3, 96, 128)), device="cpu", optimize=False)


@pytest.fixture(scope="module")
def trained_like(model):
    """A runtime with a mask generator, which decides something although it was never trained."""
    torch.manual_seed(1)
    network = accelerate(model, torch.zeros(1, 3, 96, 128), mask_generator=True)
    return TorchRuntime(network, device="cpu", optimize=False)


@pytest.fixture(scope="session")
def network():
    """A small network for exports, with a mask generator and weights of its own for partial frames."""
    torch.manual_seed(0)
    example = torch.zeros(1, 3, *EXPORT_SIZE)
    network = accelerate(build("small", 5), example, mask_generator=True, two_weight_sets=True)
    with torch.no_grad():
        for parameter in network.partial_network.parameters():
            parameter.mul_(1.05)  # the second weights shall not be the first
    return network


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, Callable[[Path], object]], Path]:
    """Gives the folder of a name, which the first process of the tests that asks for it has a function write."""
    base = tmp_path_factory.getbasetemp()
    base = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base

    def get(name: str, write: Callable[[Path], object]) -> Path:
        folder = base / f"shared-{name}"
        with FileLock(base / f"{name}.lock"):
            if not folder.is_dir():
                part = tmp_path_factory.mktemp(name)
                write(part)
                part.rename(folder)
        return folder

    return get


@pytest.fixture(scope="session")
def export_to(network, shared_folder):
    """The folder of that network exported to a format, once for all tests."""

    def export(to):
        card = Card("small", 5, EXPORT_SIZE, class_names=tuple("abcde"))
        frames = panning(3, EXPORT_SIZE)
        return shared_folder(to, lambda folder: export_network(network, card, EXPORT_SIZE, to, folder, partial=frames))

    return export


@pytest.fixture(scope="session")
def wheel(shared_folder):
    """The package, built once for all tests."""
    pytest.importorskip("hatchling")
    (path,) = shared_folder("wheel", build_wheel).glob("*.whl")
    return path


@pytest.fixture(params=["onnx", "openvino"])
def folder(request, export_to):
    """An exported folder of each format."""
    return export_to(request.param)


@pytest.fixture(scope="session")
def render_once():
    """Every run looks at the same few frames of streets, and rendering them takes longer than the rest of it."""
    frames = {}
    render = RenderedVideo._frame

    def render_if_new(video, index):
        key = (video.seed, video.size, index)
        if key not in frames:
            frames[key] = render(video, index)
        return frames[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RenderedVideo, "_frame", render_if_new)
        yield


@pytest.fixture(autouse=True)
def cache(tmp_path_factory, monkeypatch):
    """The folder of caches, empty for every test; that of whoever runs the tests is left alone."""
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    return folder
