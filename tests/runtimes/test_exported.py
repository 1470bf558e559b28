import json
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch

import stmg
from stmg import TorchRuntime, VideoSegmenter, accelerate
from stmg.card import Card
from stmg.export import compared, export
from stmg.networks import build
from stmg.runtimes.exported import DESCRIPTION, ExportedRuntime, cache_folder
from stmg.scheduler import DriftBudget, FixedPeriod, Level, PaperScheduler
from stmg.state import Masks
from zoo import panning

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


def test_what_was_used_last_stays_and_the_cheapest_wider_pattern_stands_in(folder):
    runtime = ExportedRuntime(folder, stmg.load(folder, threads=1).runtime.engine, patterns=3)
    first, second, third = [tuple(k in opened for k in range(runtime.num_blocks)) for opened in ({0}, {0, 1}, {2})]
    one_by_one(runtime, [first, second, first, third])  # second was used longest ago
    runtime.waits = False
    frame = runtime.prepare(panning(1, SIZE)[0])
    previous, changed = runtime.full(frame).features, np.ones((2, 2), np.float32)

    def used(keep):
        return runtime.partial(frame, Masks(keep, changed), previous, None, 1.0).keep

    assert used(first) == first
    assert used((False,) * runtime.num_blocks) in (first, third)
    assert used(second) == (True,) * runtime.num_blocks


def test_a_pattern_is_compiled_once_it_has_come_twice(folder):
    runtime = stmg.load(folder, threads=1).runtime
    closed = (False,) * runtime.num_blocks
    frame = runtime.prepare(panning(1, SIZE)[0])
    previous, masks = runtime.full(frame).features, Masks(closed, np.ones((2, 2), np.float32))
    for _ in range(2):
        assert threads_named("stmg-compile") == 0
        assert all(runtime.partial(frame, masks, previous, None, 1.0).keep)
    deadline = time.monotonic() + 60
    while any(runtime.partial(frame, masks, previous, None, 1.0).keep) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert runtime.partial(frame, masks, previous, None, 1.0).keep == closed
    while threads_named("stmg-compile") and time.monotonic() < deadline:  # it does not outlive its work
        time.sleep(0.01)
    assert threads_named("stmg-compile") == 0


def threads_named(name):
    return sum(thread.name == name for thread in threading.enumerate())


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="open files cannot be counted here")
def test_compiling_leaves_no_file_open(folder):
    runtime = ExportedRuntime(folder, stmg.load(folder, threads=1).runtime.engine, patterns=2)
    patterns = [tuple(k == n for k in range(runtime.num_blocks)) for n in range(4)]
    one_by_one(runtime, patterns[:1])
    before = len(os.listdir("/proc/self/fd"))
    one_by_one(runtime, patterns[1:])
    assert len(os.listdir("/proc/self/fd")) <= before


def test_a_full_disk_keeps_nothing_and_stops_nothing(folder, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    runtime = stmg.load(folder, threads=1).runtime
    closed = (False,) * runtime.num_blocks
    opened = (True,) * runtime.num_blocks
    assert not np.allclose(*one_by_one(runtime, [closed, opened]))


def test_another_export_does_not_meet_what_was_compiled_from_the_one_before(folder, cache, tmp_path):
    copied = Path(shutil.copytree(folder, tmp_path / "copied"))
    one_by_one(stmg.load(folder, threads=1).runtime, [])
    described = json.loads((copied / DESCRIPTION).read_text())
    (copied / DESCRIPTION).write_text(json.dumps({**described, "id": "another"}))
    engine = stmg.load(folder, threads=1).runtime.engine
    assert cache_folder(copied, engine, 8) != cache_folder(folder, engine, 8)


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


def test_the_commands_export_and_segment_without_pytorch(tmp_path):
    video = tmp_path / "frames"
    video.mkdir()
    for number, frame in enumerate(panning(4, SIZE)):
        cv2.imwrite(str(video / f"{number}.png"), frame)
    out = tmp_path / "export"
    stmg_command = [sys.executable, "-m", "stmg"]
    made = ["export", "small-streets", "--to", "onnx", "--size", "64x96", "--check", str(video), "--out", str(out)]
    done = subprocess.run([*stmg_command, *made], capture_output=True, text=True, timeout=200)
    assert (done.returncode, done.stderr) == (0, "")
    assert "against PyTorch on 3 frames" in " ".join(done.stdout.split())
    code = """
import sys
sys.modules["torch"] = None
from stmg.cli import main
main()
"""
    found = [
        "segment",
        str(video),
        "--model",
        str(out),
        "--fps",
        "10",
        "--out",
        str(tmp_path / "out"),
        "--save",
        "records",
    ]
    done = subprocess.run([sys.executable, "-c", code, *found], capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stderr) == (0, "")
    assert len((tmp_path / "out" / "records.jsonl").read_text().splitlines()) == 4
    found[3] = str(tmp_path / "mistyped")
    done = subprocess.run([sys.executable, "-c", code, *found], capture_output=True, text=True, timeout=100)
    assert done.returncode == 2
    assert "mistyped: an exported folder" in done.stderr


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
    assert not np.allclose(*one_by_one(runtime, [closed, opened]))


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
