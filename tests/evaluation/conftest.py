from __future__ import annotations

import pickle
import shutil
from functools import partial
from pathlib import Path

import pytest
import torch

import stmg
from stmg.data.camvid import CLASS_NAMES
from stmg.evaluation import benchmark as module
from stmg.evaluation import machine
from stmg.evaluation.benchmark import benchmark
from stmg.evaluation.results import BenchmarkResult
from stmg.evaluation.speed import mean_ms
from stmg.gating.accelerate import accelerate
from stmg.models.card import Card
from stmg.networks import build
from zoo import masked_runtime, streets

SIZE = (48, 64)


@pytest.fixture(scope="session", autouse=True)
def _render_once(render_once):
    """For every evaluation."""


@pytest.fixture(scope="session", autouse=True)
def _measure_briefly():
    """A benchmark looks at the machine and at drawing for longer than a few frames take."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(machine, "LOOK_SECONDS", 0.01)
        patch.setattr(module, "mean_ms", partial(mean_ms, seconds=0.01))
        yield


@pytest.fixture(scope="session")
def dataset():
    """Two streets of six frames, every one labeled."""
    return streets(6, SIZE)


@pytest.fixture(scope="session")
def runtime():
    """A small network with a mask generator, untrained."""
    return masked_runtime(SIZE)


@pytest.fixture(scope="session")
def frames(dataset):
    video = dataset.videos("val")[0]
    return [video.image(index, SIZE) for index in range(len(video))]


@pytest.fixture(scope="session")
def benchmark_result(shared_folder):
    """The headline table in small: baselines, a smaller network, and exports for other runtimes."""
    folder = shared_folder("benchmark", lambda part: (part / "result").write_bytes(pickle.dumps(measure(part))))
    return pickle.loads((folder / "result").read_bytes())


def measure(folder: Path) -> BenchmarkResult:
    torch.manual_seed(0)
    network = accelerate(build("small", 11), torch.zeros(1, 3, *SIZE), mask_generator=True)
    stmg.save(network, folder / "model", Card("small", 11, SIZE, class_names=CLASS_NAMES))
    stmg.save(network, folder / "other", Card("small", 11, SIZE, class_names=CLASS_NAMES))
    stmg.export(folder / "model", folder / "onnx", "onnx")
    shutil.copytree(folder / "onnx", folder / "again")
    progress = []
    with pytest.MonkeyPatch.context() as patch:
        # A process for each row would take most of the time of these tests; test_memory measures a real one.
        patch.setattr(module, "peak_memory", lambda make_segmenter, frames, mode: 10**8)
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        result = benchmark(
            str(folder / "model"),
            "street:0-0",
            frames=6,
            repeats=2,
            rate=60,
            baselines=True,
            smaller=[str(folder / "other"), "ddrnet23-narrow"],
            beside=[folder / "onnx", folder / "again"],
            on_frame=progress.append,
        )
    done = [each.done for each in progress]
    assert done == sorted(set(done))
    assert done[-1] == progress[-1].total
    return result
