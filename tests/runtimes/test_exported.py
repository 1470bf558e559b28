import json
import shutil
import threading
from pathlib import Path

import numpy as np
import pytest
import torch

import stmg
from stmg import TorchRuntime, VideoSegmenter, accelerate
from stmg.card import Card
from stmg.export import compared, export
from stmg.networks import build
from stmg.runtimes.exported import DESCRIPTION
from stmg.scheduler import DriftBudget, FixedPeriod, Level, PaperScheduler
from zoo import MobileNet, Plain, ResNetWithDecoder, TwoStreams, one_by_one, panning

SIZE = (64, 96)
KINDS = {"onnx": "onnxruntime", "openvino": "openvino"}

pytestmark = pytest.mark.slow


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


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (ResNetWithDecoder, "onnx"),
        (MobileNet, "openvino"),
        (TwoStreams, "onnx"),
        (TwoStreams, "openvino"),
        (lambda: Plain().double(), "onnx"),
    ],
)
def test_networks_of_users_export_whole_and_with_blocks_skipped(make, kind, tmp_path):
    torch.manual_seed(0)
    network = make().eval()
    example = torch.zeros(1, 3, *SIZE, dtype=next(network.parameters()).dtype)
    mine = accelerate(network, example, timed=False)
    export(mine, Card("mine", mine.num_classes, SIZE), SIZE, kind, tmp_path)
    runtime = stmg.load(tmp_path, threads=1).runtime
    assert runtime.num_blocks == len(mine.blocks)
    difference = compared(mine, runtime.card, runtime, panning(2, SIZE))
    assert max(difference.scores, difference.features) < 1e-4
    assert difference.labels < 0.001


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


@pytest.mark.parametrize("kind", KINDS)
def test_eight_bits_stay_near_and_still_skip(network, kind, tmp_path):
    if kind == "openvino":
        pytest.importorskip("nncf")
    frames = panning(4, SIZE)
    export(network, Card("small", 5, SIZE), SIZE, kind, tmp_path, calibration=frames)
    runtime = stmg.load(tmp_path, threads=1).runtime
    difference = compared(network, runtime.card, runtime, frames)
    assert 1e-4 < difference.scores < 0.5
    closed, opened = (False,) * runtime.num_blocks, (True,) * runtime.num_blocks
    assert not np.allclose(*one_by_one(runtime, frames[0], [closed, opened]))


def test_an_export_that_fails_does_not_leave_half_of_another(folder, tmp_path, monkeypatch):
    copied = Path(shutil.copytree(folder, tmp_path / "copied"))
    monkeypatch.setattr(torch.onnx, "export", lambda *_, **__: 1 / 0)
    with pytest.raises(ValueError, match="cannot be exported"):
        export(accelerate(build("small", 5), torch.zeros(1, 3, *SIZE)), Card("small", 5, SIZE), SIZE, "onnx", copied)
    with pytest.raises((ValueError, FileNotFoundError)):
        stmg.load(copied)


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
