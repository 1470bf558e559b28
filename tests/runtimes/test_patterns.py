import json
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import stmg
from stmg.runtimes import exported
from stmg.runtimes.exported import DESCRIPTION, ExportedRuntime, cache_folder
from stmg.state import Masks
from zoo import one_by_one, panning

SIZE = (64, 96)
FRAME = panning(1, SIZE)[0]

pytestmark = pytest.mark.slow


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


def test_the_least_recently_used_pattern_goes_on_disk_too(folder, cache):
    engine = stmg.load(folder, threads=1).runtime.engine
    runtime = ExportedRuntime(folder, engine, patterns=3)
    patterns = [tuple(k == n for k in range(runtime.num_blocks)) for n in range(4)]
    first = one_by_one(runtime, FRAME, patterns)
    kept = {path.stem for path in cache.rglob("*") if path.is_file()}
    assert kept == {"1" * runtime.num_blocks, "00100", "00010"}  # what stands in for all others always stays
    again = one_by_one(ExportedRuntime(folder, engine, patterns=3), FRAME, patterns[2:])  # from the disk
    assert all(np.allclose(one, two, atol=1e-4) for one, two in zip(first[2:], again, strict=True))
    for path in cache.rglob("*"):
        if path.is_file():
            path.write_bytes(b"damaged")
    mended = one_by_one(ExportedRuntime(folder, engine, patterns=3), FRAME, patterns[2:])
    assert all(np.allclose(one, two, atol=1e-4) for one, two in zip(first[2:], mended, strict=True))


def test_what_was_used_last_stays_and_the_cheapest_wider_pattern_stands_in(folder):
    runtime = ExportedRuntime(folder, stmg.load(folder, threads=1).runtime.engine, patterns=3)
    first, second, third = [tuple(k in opened for k in range(runtime.num_blocks)) for opened in ({0}, {0, 1}, {2})]
    one_by_one(runtime, FRAME, [first, second, first, third])  # second was used longest ago
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
    one_by_one(runtime, FRAME, patterns[:1])
    before = len(os.listdir("/proc/self/fd"))
    one_by_one(runtime, FRAME, patterns[1:])
    assert len(os.listdir("/proc/self/fd")) <= before


def test_a_full_disk_keeps_nothing_and_stops_nothing(folder, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    runtime = stmg.load(folder, threads=1).runtime
    closed = (False,) * runtime.num_blocks
    opened = (True,) * runtime.num_blocks
    assert not np.allclose(*one_by_one(runtime, FRAME, [closed, opened]))


def test_another_export_does_not_meet_what_was_compiled_from_the_one_before(folder, cache, tmp_path):
    copied = Path(shutil.copytree(folder, tmp_path / "copied"))
    one_by_one(stmg.load(folder, threads=1).runtime, FRAME, [])
    described = json.loads((copied / DESCRIPTION).read_text())
    (copied / DESCRIPTION).write_text(json.dumps({**described, "id": "another"}))
    engine = stmg.load(folder, threads=1).runtime.engine
    assert cache_folder(copied, engine, 8) != cache_folder(folder, engine, 8)


def test_where_nothing_can_be_kept_patterns_are_compiled_each_time(folder, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    runtime = stmg.load(folder, threads=1).runtime
    assert len(one_by_one(runtime, FRAME, [(False,) * runtime.num_blocks])) == 1


def test_a_pattern_that_cannot_be_compiled_is_stood_in_for(folder, monkeypatch):
    runtime = stmg.load(folder, threads=1).runtime
    runtime.expect_partial()
    monkeypatch.setattr(runtime, "pattern_graph", lambda keep: 1 / 0)
    closed = (False,) * runtime.num_blocks
    with pytest.warns(UserWarning, match="a wider one stands in: division by zero"):
        assert np.array_equal(*one_by_one(runtime, FRAME, [closed, (True,) * runtime.num_blocks]))


def test_a_folder_that_was_exported_again_is_not_mixed_with_what_is_loaded(folder, tmp_path):
    copied = Path(shutil.copytree(folder, tmp_path / "copied"))
    runtime = stmg.load(copied, threads=1).runtime
    runtime.expect_partial()
    os.utime(next(copied.glob("partial.*")), (1, 1))
    with pytest.warns(UserWarning, match="exported again"):
        one_by_one(runtime, FRAME, [(False,) * runtime.num_blocks])


def test_the_disk_holds_what_was_used_last(folder, cache, monkeypatch):
    engine = stmg.load(folder, threads=1).runtime.engine
    for name, age in (("old", 1000), ("new", 10)):
        other = cache / "stmg" / name
        other.mkdir(parents=True)
        (other / "111.blob").write_bytes(bytes(100))
        os.utime(other, (time.time() - age,) * 2)
    cache_folder(folder, engine, 8)
    assert (cache / "stmg" / "old").is_dir()
    monkeypatch.setattr(exported, "CACHE", 150)
    cache_folder(folder, engine, 8)
    assert [path.name for path in (cache / "stmg").iterdir()] == ["new"]


def test_too_few_patterns_are_refused(folder):
    with pytest.raises(ValueError, match="at least 2 patterns"):
        ExportedRuntime(folder, stmg.load(folder, threads=1).runtime.engine, patterns=1)


def test_a_process_may_end_while_a_pattern_is_compiled(folder):
    code = f"""
import numpy as np, stmg
from stmg.state import Masks
runtime = stmg.load({str(folder)!r}, threads=1).runtime
frame = runtime.prepare(np.zeros((64, 96, 3), np.uint8))
masks = Masks((False,) * runtime.num_blocks, np.ones((2, 2), np.float32))
for _ in range(2):
    runtime.partial(frame, masks, runtime.full(frame).features, None, 1.0)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stderr) == (0, "")
