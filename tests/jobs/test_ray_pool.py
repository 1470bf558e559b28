"""Batches on Ray: the same labels, whatever happens to the machines."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import av
import psutil
import pytest

import stmg
from clips import clip
from stmg.errors import MissingPackageError, SettingsError
from stmg.streaming.offline import SEAM
from zoo import panning

ray = pytest.importorskip("ray", reason='Ray is not installed: pip install "stmg[ray]"')
from ray.cluster_utils import Cluster  # noqa: E402

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


@pytest.fixture
def cluster(monkeypatch):
    """Two nodes of one CPU each; every process of theirs is gone afterwards."""
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    before = {process.pid for process in psutil.Process().children(recursive=True)}
    memory = 100 * 1024**2
    node = {"num_cpus": 1, "object_store_memory": memory, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=node)
    cluster.second = cluster.add_node(num_cpus=1, object_store_memory=memory)
    cluster.wait_for_nodes()
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
    (tmp_path / "slow.py").write_text(SLOW_BOX)
    model = f"{tmp_path / 'slow.py'}:box"
    losses, close = [], RayPool.close
    monkeypatch.setattr(RayPool, "close", lambda self: (losses.append(self.losses), close(self)))
    run = make_run(videos, tmp_path / "ray", model=model, ray=cluster.address, chunk=SEAM)
    ended = []

    def kill_one(entry):
        ended.append(entry.folder)
        if len(ended) == 2:
            cluster.remove_node(cluster.second, allow_graceful=False)

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
def test_mistakes_are_one_line_and_a_deadly_video_is_given_up(cluster, videos, make_run, tmp_path):
    with pytest.raises(stmg.StmgError, match=r"none\.py"):
        make_run(videos, tmp_path / "a", model=tmp_path / "none.py:box", ray=cluster.address).run()
    (tmp_path / "deadly.py").write_text("import os\ndef box():\n    return lambda image: os._exit(1)\n")
    run = make_run(videos / "0.mp4", tmp_path / "b", model=f"{tmp_path / 'deadly.py'}:box", ray=cluster.address)
    run.run()
    (entry,) = run.manifest.entries.values()
    assert entry.status == "failed"
    assert entry.reason.startswith("3 workers were lost with it")
    wide = make_run(videos, tmp_path / "c", ray=cluster.address)
    wide.settings = replace(wide.settings, spec=replace(wide.settings.spec, threads=64))
    with pytest.raises(SettingsError, match="a worker takes 64 CPUs"):
        wide.run()


def test_without_ray_the_extra_is_named(drives, make_run, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.delitem(sys.modules, "stmg.jobs.ray_pool", raising=False)
    with pytest.raises(MissingPackageError, match=r'pip install "stmg\[ray\]"'):
        make_run(drives.folder, tmp_path, ray="auto").run()
