import json
import subprocess
import sys
import threading

import numpy as np
import pytest
import torch

import stmg
from stmg import TorchRuntime, VideoSegmenter, accelerate
from stmg.card import Card
from stmg.export import compared, export
from stmg.networks import build
from stmg.runtimes.exported import DESCRIPTION, ExportedRuntime
from stmg.scheduler import DriftBudget, FixedPeriod, Level, PaperScheduler
from stmg.state import Masks
from zoo import panning

SIZE = (64, 96)
KINDS = {"onnx": "onnxruntime", "openvino": "openvino"}

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def network():
    torch.manual_seed(0)
    gated = accelerate(
        build("small", 5), torch.zeros(1, 3, *SIZE), mask_generator=True, two_weight_sets=True, timed=False
    )
    with torch.no_grad():
        for parameter in gated.partial_network.parameters():
            parameter.mul_(1.05)  # the second weights shall not be the first
    return gated


@pytest.fixture(scope="module", params=KINDS)
def folder(request, network, tmp_path_factory):
    out = tmp_path_factory.mktemp(request.param)
    export(network, Card("small", 5, SIZE, class_names=tuple("abcde")), SIZE, request.param, out)
    return out


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_it_is_the_network_whole_and_with_blocks_skipped(network, folder):
    segmenter = stmg.load(folder, threads=1)
    difference = compared(network, segmenter.runtime.card, segmenter.runtime, panning(2, SIZE))
    assert difference.scores < 1e-4
    assert difference.features < 1e-4
    assert difference.labels < 0.001
    assert difference.masks < 1e-4
    assert segmenter.class_names == tuple("abcde")


@pytest.mark.parametrize("scheduler", [PaperScheduler(), FixedPeriod(3), DriftBudget(0.1), FixedPeriod(2, Level.CARRY)])
def test_a_stream_is_the_stream_of_pytorch(network, folder, scheduler):
    frames = panning(8, SIZE)
    ours = VideoSegmenter(TorchRuntime(network, device="cpu"), scheduler=scheduler)
    theirs = stmg.load(folder, scheduler=scheduler, threads=1)
    theirs.runtime.waits = True
    for one, two in zip(ours.stream(frames), theirs.stream(frames), strict=True):
        assert (one.level, one.keep, one.macs) == (two.level, two.keep, two.macs)
        assert np.mean(one.labels == two.labels) > 0.99  # features are moved to a thirty-second of a pixel


def test_a_new_pattern_never_makes_a_frame_wait(folder, monkeypatch):
    runtime = stmg.load(folder, threads=1).runtime
    runtime.expect_partial()
    closed = (False,) * runtime.num_blocks
    release, compile_ = threading.Event(), runtime.pattern_graph
    monkeypatch.setattr(runtime, "pattern_graph", lambda keep: release.wait(10) and compile_(keep))
    frame = runtime.prepare(panning(1, SIZE)[0])
    whole = runtime.full(frame)
    masks = Masks(closed, np.ones((2, 2), np.float32))
    standing_in = runtime.partial(frame, masks, whole.features, None, 1.0)
    assert standing_in.keep == (True,) * runtime.num_blocks  # and it says so
    release.set()
    runtime.waits = True
    at_last = runtime.partial(frame, masks, whole.features, None, 1.0)
    assert at_last.keep == closed
    opened = Masks((True,) * runtime.num_blocks, masks.changed)
    assert np.array_equal(standing_in.scores, runtime.partial(frame, opened, whole.features, None, 1.0).scores)
    assert not np.allclose(at_last.scores, standing_in.scores)


def one_by_one(runtime, patterns):
    runtime.waits = True
    frame = runtime.prepare(panning(1, SIZE)[0])
    previous = runtime.full(frame).features
    changed = np.ones((2, 2), np.float32)
    return [runtime.partial(frame, Masks(keep, changed), previous, None, 1.0).scores for keep in patterns]


def test_the_least_recently_used_pattern_goes_on_disk_too(folder, cache):
    engine = stmg.load(folder, threads=1).runtime.engine
    runtime = ExportedRuntime(folder, engine, patterns=3)
    patterns = [tuple(k == n for k in range(runtime.num_blocks)) for n in range(4)]
    first = one_by_one(runtime, patterns)
    kept = {path.stem for path in cache.rglob("*") if path.is_file()}
    assert kept == {"1" * runtime.num_blocks, "00100", "00010"}  # what stands in for all others always stays
    again = one_by_one(ExportedRuntime(folder, engine, patterns=3), patterns[2:])  # from the disk
    assert all(np.allclose(one, two, atol=1e-4) for one, two in zip(first[2:], again, strict=True))
    for path in cache.rglob("*"):
        if path.is_file():
            path.write_bytes(b"damaged")
    mended = one_by_one(ExportedRuntime(folder, engine, patterns=3), patterns[2:])
    assert all(np.allclose(one, two, atol=1e-4) for one, two in zip(first[2:], mended, strict=True))


def test_where_nothing_can_be_kept_patterns_are_compiled_each_time(folder, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    runtime = stmg.load(folder, threads=1).runtime
    assert len(one_by_one(runtime, [(False,) * runtime.num_blocks])) == 1


def test_a_pattern_that_cannot_be_compiled_is_stood_in_for(folder, monkeypatch):
    runtime = stmg.load(folder, threads=1).runtime
    runtime.expect_partial()
    monkeypatch.setattr(runtime, "pattern_graph", lambda keep: 1 / 0)
    closed = (False,) * runtime.num_blocks
    assert np.array_equal(*one_by_one(runtime, [closed, (True,) * runtime.num_blocks]))


def test_streams_in_threads_share_an_export(folder):
    runtime = stmg.load(folder, threads=1).runtime
    frames = panning(6, SIZE)
    alone = [runtime.full(runtime.prepare(frame)).scores for frame in frames]
    wrong = []

    def stream(places):
        found = [(place, runtime.full(runtime.prepare(frames[place])).scores) for place in places]
        wrong.extend(place for place, scores in found if not np.array_equal(scores, alone[place]))

    threads = [threading.Thread(target=stream, args=([n, 5 - n] * 10,)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_frames_of_another_size_are_brought_to_the_exported_one(folder):
    segmenter = stmg.load(folder, threads=1)
    result = segmenter.step(panning(1, (100, 150))[0])
    assert result.labels.shape == (100, 150)


def test_mistakes_are_told(folder, tmp_path):
    with pytest.raises(ValueError, match="no runtime is called"):
        stmg.load(folder, runtime="tensorrt")
    with pytest.raises(ValueError, match="is exported for"):
        stmg.load(folder, runtime="torch")
    with pytest.raises(ValueError, match="not exported"):
        stmg.load("small-streets", runtime="openvino")
    with pytest.raises(ValueError, match="partial frames at 1, not"):
        list(stmg.load(folder, partial_scale=0.5, scheduler=FixedPeriod(2)).stream(panning(2, SIZE)))
    content = json.loads((folder / DESCRIPTION).read_text())
    (tmp_path / DESCRIPTION).write_text(json.dumps(content))
    with pytest.raises(ValueError, match="lacks full"):
        stmg.load(tmp_path)
    (tmp_path / DESCRIPTION).write_text(json.dumps({**content, "format": 9}))
    with pytest.raises(ValueError, match="another format"):
        stmg.load(tmp_path)


def test_it_needs_no_pytorch(folder):
    code = f"""
import sys
sys.modules["torch"] = None
import numpy as np, stmg
frames = [np.full((64, 96, 3), 9 * n, np.uint8) for n in range(4)]
print([result.level.value for result in stmg.load({str(folder)!r}, threads=1).stream(frames)])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("['key'")


def test_a_plain_graph_of_somebody_else_runs_without_training(network, tmp_path):
    plain = network.plain().eval()
    path = tmp_path / "plain.onnx"
    torch.onnx.export(plain, (torch.zeros(1, 3, *SIZE),), str(path), dynamo=True, external_data=False, verbose=False)
    frames = panning(4, SIZE)
    ours = VideoSegmenter(TorchRuntime(plain, device="cpu"), scheduler=FixedPeriod(2, Level.CARRY))
    for runtime in KINDS.values():
        theirs = stmg.load(path, runtime=runtime, scheduler=FixedPeriod(2, Level.CARRY), threads=1)
        for one, two in zip(ours.stream(frames), theirs.stream(frames), strict=True):
            assert one.level == two.level
            assert np.mean(one.labels == two.labels) > 0.999
    (tmp_path / "broken.onnx").write_bytes(b"nothing")
    with pytest.raises(ValueError, match="cannot be loaded"):
        stmg.load(tmp_path / "broken.onnx")


def test_what_cannot_be_exported_names_what_stands_in_the_way(tmp_path):
    class Odd(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.head = torch.nn.Conv2d(3, 4, 1)

        def forward(self, image):
            scores = self.head(image)
            return torch.from_numpy(np.sort(scores.detach().numpy())) if scores.mean() > 9 else scores

    odd = accelerate(Odd(), torch.zeros(1, 3, *SIZE), timed=False)
    with pytest.raises(ValueError, match="full cannot be exported: "):
        export(odd, Card("odd", 4, SIZE), SIZE, "onnx", tmp_path)
    with pytest.raises(ValueError, match="onnx or openvino"):
        export(odd, Card("odd", 4, SIZE), SIZE, "coreml", tmp_path)
