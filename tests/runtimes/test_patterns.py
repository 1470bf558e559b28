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
from stmg.errors import ModelError, SettingsError
from stmg.runtimes import patterns as patterns_module
from stmg.runtimes.exported import ExportedRuntime
from stmg.runtimes.manifest import MANIFEST
from stmg.runtimes.patterns import ORIGIN, PatternCache, content_digest, disk_cache, file_stamps
from stmg.streaming.masks import Masks
from waiting import PATIENCE, wait_for
from zoo import one_by_one, panning

SIZE = (64, 96)
FRAME = panning(1, SIZE)[0]

ALL, NONE = (True,) * 3, (False,) * 3


def patterns_of(capacity=3, fail=()):
    """A cache whose compiled graphs are their own patterns, what was compiled, and what was discarded."""
    compiled, discarded = [], []

    def compile(keep):
        compiled.append(keep)
        if keep in fail:
            raise RuntimeError("no such operation")
        return keep

    return PatternCache(3, capacity, compile, discarded.append), compiled, discarded


def test_the_whole_graph_is_compiled_at_once_and_never_discarded():
    cache, compiled, discarded = patterns_of(capacity=2)
    assert compiled == [ALL]
    for number in range(3):
        cache.get_exact(tuple(index == number for index in range(3)))
    assert discarded == [(True, False, False), (False, True, False)]
    assert cache.get(ALL) == (ALL, ALL)


def test_the_least_recently_used_pattern_is_discarded():
    cache, _, discarded = patterns_of(capacity=3)
    one, two, three = (True, False, False), (False, True, False), (False, False, True)
    for keep in (one, two, one, three):
        assert cache.get_exact(keep) == keep
    assert discarded == [two]


def test_the_cheapest_wider_pattern_stands_in():
    cache, compiled, _ = patterns_of(capacity=9)
    cache.get_exact((True, True, False))
    assert cache.get((True, False, False)) == ((True, True, False),) * 2
    assert cache.get((False, False, True)) == (ALL, ALL)
    assert compiled == [ALL, (True, True, False)]  # what came once is not compiled


def test_a_pattern_that_cannot_be_compiled_is_an_error_where_it_must_be_exact():
    cache, compiled, _ = patterns_of(fail=[NONE])
    with (
        pytest.warns(UserWarning, match="a wider one stands in: no such operation"),
        pytest.raises(ModelError, match="a pattern of blocks cannot be compiled: no such operation"),
    ):
        cache.get_exact(NONE)
    assert cache.get(NONE) == (ALL, ALL)
    with pytest.raises(ModelError, match="cannot be compiled"):
        cache.get_exact(NONE)
    assert compiled == [ALL, NONE]  # it is not tried again


def test_an_exact_pattern_is_never_another_one_when_threads_crowd_the_cache():
    cache, _, _ = patterns_of(capacity=2)
    wrong = []

    def ask(keep):
        wrong.extend(keep for _ in range(50) if cache.get_exact(keep) != keep)

    threads = [threading.Thread(target=ask, args=(tuple(index == n for index in range(3)),)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.slow
def test_a_new_pattern_never_makes_a_frame_wait(folder, monkeypatch):
    runtime = stmg.load(folder, threads=1).runtime
    runtime.expect_partial()
    closed = (False,) * runtime.num_blocks
    release, compile_ = threading.Event(), runtime.compile_pattern
    monkeypatch.setattr(runtime, "compile_pattern", lambda keep: release.wait(PATIENCE) and compile_(keep))
    frame = runtime.prepare(panning(1, SIZE)[0])
    whole = runtime.full(frame)
    masks = Masks(closed, np.ones((2, 2), np.float32))
    standing_in = runtime.partial(frame, masks, whole.features, None, 1.0)
    assert standing_in.keep == (True,) * runtime.num_blocks  # and it says so
    release.set()
    opened = Masks((True,) * runtime.num_blocks, masks.changed)
    with runtime.exact_patterns():
        with runtime.exact_patterns():
            pass
        at_last = runtime.partial(frame, masks, whole.features, None, 1.0)
        assert at_last.keep == closed
        assert np.array_equal(standing_in.logits, runtime.partial(frame, opened, whole.features, None, 1.0).logits)
    assert not np.allclose(at_last.logits, standing_in.logits)


@pytest.mark.slow
def test_the_least_recently_used_pattern_goes_on_disk_too(folder, cache):
    engine = stmg.load(folder, threads=1).runtime.engine
    runtime = ExportedRuntime(folder, engine, patterns=3)
    patterns = [tuple(k == n for k in range(runtime.num_blocks)) for n in range(4)]
    first = one_by_one(runtime, FRAME, patterns)
    files = {path.stem for path in cache.rglob("*") if path.is_file() and path.name != ORIGIN}
    assert files == {"1" * runtime.num_blocks, "00100", "00010"}  # what stands in for all others always stays
    again = one_by_one(ExportedRuntime(folder, engine, patterns=3), FRAME, patterns[2:])  # from the disk
    assert all(np.allclose(one, two, atol=1e-4) for one, two in zip(first[2:], again, strict=True))
    for path in cache.rglob("*"):
        if path.is_file():
            path.write_bytes(b"damaged")
    mended = one_by_one(ExportedRuntime(folder, engine, patterns=3), FRAME, patterns[2:])
    assert all(np.allclose(one, two, atol=1e-4) for one, two in zip(first[2:], mended, strict=True))


@pytest.mark.slow
def test_what_was_used_last_stays_and_the_cheapest_wider_pattern_stands_in(folder):
    runtime = ExportedRuntime(folder, stmg.load(folder, threads=1).runtime.engine, patterns=3)
    first, second, third = [tuple(k in opened for k in range(runtime.num_blocks)) for opened in ({0}, {0, 1}, {2})]
    one_by_one(runtime, FRAME, [first, second, first, third])  # second was used longest ago
    frame = runtime.prepare(panning(1, SIZE)[0])
    previous, changed = runtime.full(frame).features, np.ones((2, 2), np.float32)

    def used(keep):
        return runtime.partial(frame, Masks(keep, changed), previous, None, 1.0).keep

    assert used(first) == first
    assert used((False,) * runtime.num_blocks) in (first, third)
    assert used(second) == (True,) * runtime.num_blocks


@pytest.mark.slow
def test_a_pattern_is_compiled_once_it_has_come_twice(folder):
    runtime = stmg.load(folder, threads=1).runtime
    closed = (False,) * runtime.num_blocks
    frame = runtime.prepare(panning(1, SIZE)[0])
    previous, masks = runtime.full(frame).features, Masks(closed, np.ones((2, 2), np.float32))
    wait_for(count_compiling, lambda number: number == 0)  # of the tests before
    for _ in range(2):
        assert count_compiling() == 0
        assert all(runtime.partial(frame, masks, previous, None, 1.0).keep)
    wait_for(lambda: runtime.partial(frame, masks, previous, None, 1.0).keep, lambda keep: keep == closed)
    wait_for(count_compiling, lambda number: number == 0)  # it does not outlive its work


def count_compiling():
    return sum(thread.name == "stmg-compile" for thread in threading.enumerate())


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="open files cannot be counted here")
@pytest.mark.slow
def test_compiling_leaves_no_file_open(folder):
    runtime = ExportedRuntime(folder, stmg.load(folder, threads=1).runtime.engine, patterns=2)
    patterns = [tuple(k == n for k in range(runtime.num_blocks)) for n in range(4)]
    one_by_one(runtime, FRAME, patterns[:1])
    before = len(os.listdir("/proc/self/fd"))
    one_by_one(runtime, FRAME, patterns[1:])
    assert len(os.listdir("/proc/self/fd")) <= before


@pytest.mark.slow
def test_a_full_disk_keeps_nothing_and_stops_nothing(folder, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    runtime = stmg.load(folder, threads=1).runtime
    closed = (False,) * runtime.num_blocks
    opened = (True,) * runtime.num_blocks
    assert not np.allclose(*one_by_one(runtime, FRAME, [closed, opened]))


@pytest.mark.slow
def test_another_export_does_not_meet_what_was_compiled_from_the_one_before(folder, cache, tmp_path):
    copied = Path(shutil.copytree(folder, tmp_path / "copied"))
    one_by_one(stmg.load(folder, threads=1).runtime, FRAME, [])
    content = json.loads((copied / MANIFEST).read_text())
    (copied / MANIFEST).write_text(json.dumps({**content, "id": "another"}))
    engine = stmg.load(folder, threads=1).runtime.engine
    assert disk_cache(copied, engine, 8, content_digest(copied)) != disk_cache(
        folder, engine, 8, content_digest(folder)
    )


@pytest.mark.slow
def test_where_nothing_can_be_kept_patterns_are_compiled_each_time(folder, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    runtime = stmg.load(folder, threads=1).runtime
    assert len(one_by_one(runtime, FRAME, [(False,) * runtime.num_blocks])) == 1


@pytest.mark.slow
def test_a_folder_that_was_exported_again_is_not_mixed_with_what_is_loaded(folder, tmp_path):
    copied = Path(shutil.copytree(folder, tmp_path / "copied"))
    runtime = stmg.load(copied, threads=1).runtime
    runtime.expect_partial()
    os.utime(next(copied.glob("partial.*")), (1, 1))
    with pytest.warns(UserWarning, match="exported again"), pytest.raises(ModelError, match="exported again"):
        one_by_one(runtime, FRAME, [(False,) * runtime.num_blocks])


@pytest.mark.slow
def test_the_disk_holds_what_was_used_last(folder, cache, monkeypatch):
    engine = stmg.load(folder, threads=1).runtime.engine
    for name, age in (("old", 1000), ("new", 10)):
        other = cache / "stmg" / "compiled" / name
        other.mkdir(parents=True)
        (other / "111.blob").write_bytes(bytes(100))
        os.utime(other, (time.time() - age,) * 2)
    disk_cache(folder, engine, 8, content_digest(folder))
    assert (cache / "stmg" / "compiled" / "old").is_dir()
    weights = cache / "stmg" / "weights" / "ddrnet39-camvid"
    weights.mkdir(parents=True)
    (weights / "model.safetensors").write_bytes(bytes(1000))
    monkeypatch.setattr(patterns_module, "MAX_BYTES", 150)
    disk_cache(folder, engine, 8, content_digest(folder))
    assert [path.name for path in (cache / "stmg" / "compiled").iterdir()] == ["new"]
    assert (weights / "model.safetensors").is_file()


@pytest.mark.slow
def test_what_damaged_exports_left_goes_with_them(folder, cache, tmp_path):
    engine = stmg.load(folder, threads=1).runtime.engine
    copied = Path(shutil.copytree(folder, tmp_path / "copied"))
    whole = (copied / MANIFEST).read_text()
    kept = disk_cache(folder, engine, 8, content_digest(folder))
    stmg.load(folder, threads=1).runtime.expect_partial()
    left = []
    for name in ("first", "second"):
        (copied / MANIFEST).write_text(json.dumps({**json.loads(whole), "id": name}))
        os.utime(copied / MANIFEST, (1, 1))  # damage need not show in times and sizes
        runtime = ExportedRuntime(copied, engine)
        runtime.expect_partial()
        left.append(disk_cache(copied, engine, 8, content_digest(copied)))
        assert any(left[-1].iterdir())
    assert not left[0].exists()
    assert left[1].is_dir()
    shutil.rmtree(copied)
    ExportedRuntime(folder, engine)
    assert not left[1].exists()
    assert any(kept.iterdir())


@pytest.mark.slow
def test_too_few_patterns_are_refused(folder):
    with pytest.raises(SettingsError, match="patterns is at least 2"):
        ExportedRuntime(folder, stmg.load(folder, threads=1).runtime.engine, patterns=1)


@pytest.mark.slow
def test_a_process_may_end_while_a_pattern_is_compiled(folder):
    code = f"""
import numpy as np, stmg
from stmg.streaming.masks import Masks
runtime = stmg.load({str(folder)!r}, threads=1).runtime
frame = runtime.prepare(np.zeros((64, 96, 3), np.uint8))
masks = Masks((False,) * runtime.num_blocks, np.ones((2, 2), np.float32))
for _ in range(2):
    runtime.partial(frame, masks, runtime.full(frame).features, None, 1.0)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE)
    assert (done.returncode, done.stderr) == (0, "")


def test_what_is_hidden_in_the_folder_of_an_export_is_none_of_its_files(tmp_path):
    (tmp_path / "key.onnx").write_bytes(b"graph")
    before = content_digest(tmp_path), file_stamps(tmp_path)
    (tmp_path / ".git").mkdir()
    (tmp_path / "more.files").mkdir()
    (tmp_path / ".DS_Store").touch()
    assert (content_digest(tmp_path), file_stamps(tmp_path)) == before
    (tmp_path / "key.onnx").write_bytes(b"another")
    assert content_digest(tmp_path) != before[0]
