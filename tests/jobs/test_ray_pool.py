"""Batches on Ray: the same labels, even if machines are lost."""

from __future__ import annotations

import itertools
import re
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import av
import psutil
import pytest

import stmg
from clips import clip
from stmg.errors import MissingPackageError, SettingsError, install_command
from stmg.jobs.task import BatchSettings
from stmg.models.spec import ModelSpec
from stmg.streaming.offline import SEAM
from zoo import panning

ray = pytest.importorskip("ray", reason='Ray is not installed: pip install "stmg[ray]"')
from ray.cluster_utils import Cluster  # noqa: E402
from ray.exceptions import RayError  # noqa: E402

from stmg.jobs import ray_pool  # noqa: E402
from stmg.jobs.ray_pool import RayPool  # noqa: E402

SLOW_BOX = """
import time
import numpy as np
def box():
    def segment(image):
        time.sleep(0.02)
        return image.transpose(2, 0, 1).astype(np.float32)
    return segment
"""


NODE = {"num_cpus": 1, "object_store_memory": 100 * 1024**2}


@pytest.fixture
def cluster(monkeypatch):
    """A node of one CPU; every process of the cluster is gone afterwards."""
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    before = {process.pid for process in psutil.Process().children(recursive=True)}
    cluster = Cluster(initialize_head=True, head_node_args={**NODE, "include_dashboard": False})
    yield cluster
    ray.shutdown()
    cluster.shutdown()
    left = [process for process in psutil.Process().children(recursive=True) if process.pid not in before]
    _, alive = psutil.wait_procs(left, timeout=20)
    assert not [process for process in alive if process.status() != psutil.STATUS_ZOMBIE]


def label_files(out: Path) -> dict[str, bytes]:
    return {str(path.relative_to(out)): path.read_bytes() for path in sorted(out.rglob("labels/*.png"))}


@pytest.fixture(scope="module")
def videos(tmp_path_factory):
    """Six short videos, one that is long enough to be cut, and one that is none."""
    folder = tmp_path_factory.mktemp("videos")
    for number in range(6):
        clip(folder / f"{number}.mp4", 60 + 10 * number)
    (folder / "broken.mp4").write_bytes(b"no video at all" * 100)
    with av.open(str(folder / "long.mp4"), "w") as container:
        stream = container.add_stream("libx264", rate=25, width=96, height=64, pix_fmt="yuv420p")
        for image in panning(3 * SEAM // 2 + 5, (64, 96)):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
        container.mux(stream.encode(None))
    return folder


@pytest.mark.slow
def test_a_lost_machine_loses_no_video_and_changes_no_label(cluster, videos, make_run, tmp_path, monkeypatch):
    second = cluster.add_node(**NODE)
    cluster.wait_for_nodes()
    (tmp_path / "slow.py").write_text(SLOW_BOX)
    model = f"{tmp_path / 'slow.py'}:box"
    losses, close = [], RayPool.close
    monkeypatch.setattr(RayPool, "close", lambda self: (losses.append(self.losses), close(self)))
    run = make_run(videos, tmp_path / "ray", model=model, ray=cluster.address, chunk=SEAM)
    ended = []

    def kill_one(entry):
        ended.append(entry.folder)
        if len(ended) == 2:
            cluster.remove_node(second, allow_graceful=False)

    run.finished = kill_one
    run.run()
    assert sum(losses[0].values()) >= 1, "no task was lost, so nothing was tested"
    names = sorted(path.name for path in videos.iterdir())
    assert sorted(ended) == names  # each once
    entries = run.manifest.entries
    assert {name: entry.status for name, entry in entries.items()} == {
        name: "failed" if name == "broken.mp4" else "done" for name in names
    }
    assert entries["long.mp4"].parts == 2
    assert not (tmp_path / "ray" / ".work").exists()
    make_run(videos, tmp_path / "plain", model=model, chunk=0).run()
    expected = label_files(tmp_path / "plain")
    assert len(expected) == sum(60 + 10 * number for number in range(6)) + 3 * SEAM // 2 + 5
    assert label_files(tmp_path / "ray") == expected


@pytest.mark.slow
def test_mistakes_are_one_line_and_a_deadly_video_is_given_up(cluster, videos, make_run, tmp_path, monkeypatch):
    monkeypatch.setattr(ray_pool, "ATTEMPTS", 2)
    with pytest.raises(stmg.StmgError, match=r"none\.py"):
        make_run(videos, tmp_path / "a", model=tmp_path / "none.py:box", ray=cluster.address).run()
    (tmp_path / "deadly.py").write_text("import os\ndef box():\n    return lambda image: os._exit(1)\n")
    run = make_run(videos / "0.mp4", tmp_path / "b", model=f"{tmp_path / 'deadly.py'}:box", ray=cluster.address)
    run.run()
    (entry,) = run.manifest.entries.values()
    assert entry.status == "failed"
    assert entry.reason.startswith("2 workers were lost with it")
    wide = make_run(videos, tmp_path / "c", ray=cluster.address)
    wide.settings = replace(wide.settings, spec=wide.settings.spec.with_options(threads=64))
    with pytest.raises(SettingsError, match="a worker takes 64 CPUs"):
        wide.run()


def replace_ray(monkeypatch, nodes, get, wait):
    """In the place of Ray, a cluster of these nodes, where references are numbered strings such as `load0`."""
    number = itertools.count()

    def make_actor(*_):
        name = next(number)
        remote = {verb: SimpleNamespace(remote=lambda *_, verb=verb: f"{verb}{name}") for verb in VERBS}
        return SimpleNamespace(**remote)

    actor_class = SimpleNamespace(options=lambda **_: SimpleNamespace(remote=make_actor))
    functions = {"nodes": lambda: nodes, "get": get, "wait": wait, "kill": lambda actor: None}
    fake = SimpleNamespace(is_initialized=lambda: True, remote=lambda kind: actor_class, **functions)
    monkeypatch.setattr(ray_pool, "ray", fake)
    for name in ("WAIT_SECONDS", "SCAN_SECONDS", "PATIENCE"):
        monkeypatch.setattr(ray_pool, name, 0.01)


VERBS = ("load", "run", "progress")
ALIVE = {"Alive": True, "Resources": {"CPU": 1.0}}


def test_without_any_worker_left_it_ends_with_an_error(make_run, tmp_path, monkeypatch):
    nodes = [ALIVE]

    def get(reference):
        if reference == "load0":
            return ()
        nodes.clear()
        raise RayError("the machine is gone")

    replace_ray(monkeypatch, nodes, get, wait=lambda references, **_: (references[:1], references[1:]))
    clip(tmp_path / "0.mp4", 3)
    run = make_run(tmp_path / "0.mp4", tmp_path / "out", ray="auto")
    with pytest.raises(OSError, match="all workers were lost, and for 0 seconds none could be started"):
        run.run()
    assert list((tmp_path / "out").iterdir()) == []


def test_a_worker_that_never_answers_does_not_hide_why_another_failed(make_run, tmp_path, monkeypatch):
    def get(reference):
        raise RayError("the machine is gone")

    def wait(references, *, timeout, **_):
        if "load0" not in references:
            assert timeout is not None, "it would wait for ever"
        return [name for name in references if name == "load0"], []

    replace_ray(monkeypatch, [ALIVE, ALIVE], get, wait)
    clip(tmp_path / "0.mp4", 3)
    with pytest.raises(OSError, match="no worker could be started: the machine is gone"):
        make_run(tmp_path / "0.mp4", tmp_path / "out", ray="auto").run()


def make_pool(monkeypatch, nodes, name="small", **options):
    replace_ray(monkeypatch, nodes, get=lambda reference: (), wait=lambda references, **_: (references[:1], []))
    return RayPool(BatchSettings(spec=ModelSpec(name, options)), "out", "auto")


def test_a_worker_on_a_gpu_needs_a_machine_that_has_one(monkeypatch):
    with pytest.raises(SettingsError, match=r"a worker takes 1 CPUs and a GPU, and no machine .* or --device cpu"):
        make_pool(monkeypatch, [ALIVE], device="cuda:1").start()
    many = {"Alive": True, "Resources": {"CPU": 8.0, "GPU": 2.0}}
    pool = make_pool(monkeypatch, [ALIVE, many], device="cuda:1")
    pool.start()
    assert len(pool._loading) + len(pool._idle) == 2
    assert pool._arguments[0].spec.settings.device == "cuda"  # the one that Ray shows it


def test_workers_in_other_folders_find_the_files_of_the_model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("net.py", "weights.pth", "run/stmg.json", "corrector/corrector.json", "small/notes.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()

    def portable(**fields):
        return make_pool(monkeypatch, [ALIVE], **fields)._arguments[0].spec

    spec = portable(name="run", weights=Path("weights.pth"), network="net.py:build", corrector="corrector")
    assert spec.name == str(tmp_path / "run")
    assert spec.settings.weights == tmp_path / "weights.pth"
    assert spec.settings.network == f"{tmp_path}/net.py:build"
    assert spec.settings.corrector == str(tmp_path / "corrector")
    assert portable(name="net.py:build").name == f"{tmp_path}/net.py:build"
    (tmp_path / "nets").mkdir()
    assert portable(name="nets:build").name == "nets:build"  # of a package that lies here
    for name in ("small", "small-streets", "owner/model", "package.module:build"):
        spec = portable(name=name, corrector="none")
        assert (spec.name, spec.settings.corrector) == (name, "none")


def test_without_ray_the_extra_is_named(drives, make_run, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.delitem(sys.modules, "stmg.jobs.ray_pool", raising=False)
    with pytest.raises(MissingPackageError, match=re.escape(install_command("ray"))):
        make_run(drives.folder, tmp_path, ray="auto").run()
