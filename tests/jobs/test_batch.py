"""Batches: every video is done exactly once, whatever fails."""

import json
import subprocess
import sys
from pathlib import Path

import av
import fsspec
import numpy as np
import pytest
from PIL import Image

import stmg
from clips import clip
from stmg.errors import SettingsError
from stmg.jobs import storage as storage_module
from stmg.jobs import task as task_module
from stmg.jobs import worker as worker_module
from stmg.jobs.manifest import MANIFEST
from stmg.jobs.storage import LOCK, lock_folder
from stmg.jobs.task import BatchSettings, Part
from stmg.jobs.videos import Video
from stmg.jobs.worker import Worker, cut_frames
from stmg.models.spec import ModelSpec
from stmg.streaming import offline as offline_module


def statuses(run):
    return {entry.folder: entry.status for entry in run.manifest.entries.values()}


def label_images(folder):
    return [np.asarray(Image.open(path)) for path in sorted(Path(folder).glob("*.png"))]


def test_another_corrector_or_network_is_another_task(tmp_path):
    for name in ("corrector", "nets.py"):
        path = tmp_path / name
        files = [path] if path.suffix else [path / "corrector.safetensors"]
        files[0].parent.mkdir(exist_ok=True)
        option = {"network": f"{path}:build"} if path.suffix else {"corrector": str(path)}
        keys = []
        for content in (b"1", b"22"):
            files[0].write_bytes(content)
            keys.append(BatchSettings(spec=ModelSpec("model", {**option})).key(Video("a.mp4", "a.mp4", 1, "1")))
        assert keys[0] != keys[1]


def test_each_video_has_its_outputs_and_a_broken_one_does_not_stop_the_rest(drives, make_run, tmp_path):
    run = make_run(drives.folder, tmp_path)
    run.run()
    assert statuses(run) == {"a.mp4": "done", "b/c.mp4": "done", "broken.mp4": "failed"}
    lines = [json.loads(line) for line in (tmp_path / MANIFEST).read_text().splitlines()]
    assert [line["status"] for line in lines] == ["done", "done", "failed"]
    assert "broken.mp4 cannot be opened" in lines[2]["reason"]
    assert (lines[0]["frames"], lines[1]["frames"]) == (20, 30)
    for name, frames in (("a.mp4", 20), ("b/c.mp4", 30)):
        assert {path.name for path in (tmp_path / name).iterdir()} == {"records.jsonl", "labels", "done.json"}
        assert len(label_images(tmp_path / name / "labels")) == frames
    assert {path.name for path in tmp_path.iterdir()} == {"a.mp4", "b", MANIFEST}


def test_run_again_it_does_what_is_missing(drives, make_run, tmp_path):
    make_run(drives.folder, tmp_path).run()
    written = (tmp_path / "a.mp4" / "records.jsonl").stat().st_mtime_ns
    (tmp_path / "b" / "c.mp4" / "done.json").unlink()  # as if it had been stopped right before the end
    run = make_run(drives.folder, tmp_path)
    run.run()
    assert statuses(run) == {"a.mp4": "skipped", "b/c.mp4": "done", "broken.mp4": "failed"}
    assert (tmp_path / "a.mp4" / "records.jsonl").stat().st_mtime_ns == written


def test_outputs_of_an_earlier_version_are_made_again_and_a_note_says_so(drives, make_run, tmp_path):
    video = drives.folder / "a.mp4"
    make_run(video, tmp_path).run()
    marker = tmp_path / "a.mp4" / "done.json"
    content = json.loads(marker.read_text())
    del content["format"]
    marker.write_text(json.dumps({**content, "key": "of settings as they were typed"}))
    run = make_run(video, tmp_path)
    run.run()
    assert statuses(run) == {"a.mp4": "done"}
    assert [note for note in run.notes if note.startswith("1 videos were done by an earlier version")]
    run = make_run(video, tmp_path)
    run.run()
    assert statuses(run) == {"a.mp4": "skipped"}


HOLD = """
import sys, time
from pathlib import Path
from stmg.jobs.storage import lock_folder
with lock_folder(Path(sys.argv[1])):
    print("locked", flush=True)
    time.sleep(600)
"""


def test_two_runs_do_not_write_to_one_folder_and_one_that_was_killed_does_not_block_it(drives, make_run, tmp_path):
    other = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert other.stdout.readline() == "locked\n"
    with pytest.raises(SettingsError, match=r"another run is writing to .*; wait until it has ended, or choose"):
        make_run(drives.folder, tmp_path).run()
    assert [path.name for path in tmp_path.iterdir()] == [LOCK]
    other.kill()
    other.communicate()
    assert (tmp_path / LOCK).exists()
    run = make_run(drives.folder, tmp_path)
    run.run()
    assert statuses(run)["a.mp4"] == "done"
    assert not (tmp_path / LOCK).exists()


def test_a_lock_that_was_removed_while_it_was_waited_for_is_taken_again(tmp_path, monkeypatch):
    """As if the run before had ended between the opening of its lock here and the attempt to take it."""
    take, taken = storage_module._lock, []

    def remove_first(descriptor, folder):
        if not taken:
            (folder / LOCK).unlink()
        taken.append(descriptor)
        take(descriptor, folder)

    monkeypatch.setattr(storage_module, "_lock", remove_first)
    with lock_folder(tmp_path):
        assert len(taken) == 2
        with pytest.raises(SettingsError, match="another run"), lock_folder(tmp_path):
            pass
    assert list(tmp_path.iterdir()) == []


def test_another_setting_or_another_video_is_not_done_yet(drives, make_run, tmp_path):
    video = tmp_path / "v.mp4"
    clip(video, 6)
    make_run(video, tmp_path / "out").run()
    again = make_run(video, tmp_path / "out", every=2)
    again.run()
    assert statuses(again) == {"v.mp4": "done"}
    assert len(label_images(tmp_path / "out/v.mp4/labels")) == 3  # of the six before, nothing is left
    shared = make_run(video, tmp_path / "out", every=2, chunk=0)  # how work is shared is no other setting
    shared.run()
    assert statuses(shared) == {"v.mp4": "skipped"}
    clip(video, 8)
    other = make_run(video, tmp_path / "out", every=2)
    other.run()
    assert statuses(other) == {"v.mp4": "done"}


def test_an_interruption_keeps_what_is_done_and_nothing_half_written(drives, make_run, tmp_path, monkeypatch):
    stream = worker_module.Worker._stream

    def interrupted(self, segmenter, video, folder, task):
        if task.video.name == "b/c.mp4":
            (folder / "labels").mkdir()
            raise KeyboardInterrupt
        return stream(self, segmenter, video, folder, task)

    monkeypatch.setattr(worker_module.Worker, "_stream", interrupted)
    run = make_run(drives.folder, tmp_path)
    with pytest.raises(KeyboardInterrupt):
        run.run()
    assert statuses(run) == {"a.mp4": "done"}
    assert {path.name for path in tmp_path.iterdir()} == {"a.mp4", MANIFEST}
    monkeypatch.undo()
    run = make_run(drives.folder, tmp_path)
    run.run()
    assert statuses(run) == {"a.mp4": "skipped", "b/c.mp4": "done", "broken.mp4": "failed"}


@pytest.mark.parametrize("every", [1, 3])
def test_a_video_that_is_cut_gives_what_the_whole_gives(make_run, tmp_path, monkeypatch, every):
    cut_every_eight(monkeypatch)
    video = clip(tmp_path / "long.mp4", 52 * every, bf="2")
    save = ("overlay", "records", "labels", "timeline")
    whole, cut = (
        make_run(video, tmp_path / name, chunk=chunk, every=every, save=save)
        for name, chunk in (("whole", 0), ("cut", 16))
    )
    whole.run()
    cut.run()
    entries = [run.manifest.entries["long.mp4"] for run in (whole, cut)]
    assert [entry.parts for entry in entries] == [1, 3]
    assert entries[0].frames == entries[1].frames == 52
    assert entries[0].network_runs == entries[1].network_runs
    folders = [tmp_path / name / "long.mp4" for name in ("whole", "cut")]
    assert [sorted(path.name for path in folder.iterdir()) for folder in folders] == [
        ["done.json", "labels", "overlay.mp4", "records.jsonl", "timeline.png"]
    ] * 2
    for one, two in zip(*(label_images(folder / "labels") for folder in folders), strict=True):
        assert np.array_equal(one, two)
    records = [[json.loads(line) for line in (folder / "records.jsonl").read_text().splitlines()] for folder in folders]
    for one, two in zip(*records, strict=True):
        for measured in ("latency_ms", "audit"):  # which anchors are audited is counted from where a part begins
            del one[measured], two[measured]
        assert one == two
    shown = []
    for folder in folders:
        with av.open(str(folder / "overlay.mp4")) as container:
            shown.append([(frame.time, frame.to_ndarray(format="rgb24")) for frame in container.decode(video=0)])
    assert len(shown[0]) == len(shown[1]) == 52
    for (when, one), (then, two) in zip(*shown, strict=True):
        assert when == pytest.approx(then, abs=1e-3)
        assert np.abs(one.astype(int) - two).mean() < 6  # coded anew from each part on


def test_parts_that_are_done_stay_done(make_run, tmp_path, monkeypatch):
    cut_every_eight(monkeypatch)
    video = clip(tmp_path / "long.mp4", 40)
    begun = []
    stream = Worker._stream

    def counted(self, segmenter, source, folder, task):
        begun.append(task.part.number)
        if len(begun) == 2:
            raise KeyboardInterrupt
        return stream(self, segmenter, source, folder, task)

    monkeypatch.setattr(Worker, "_stream", counted)
    run = make_run(video, tmp_path / "out", chunk=8)
    with pytest.raises(KeyboardInterrupt):
        run.run()
    assert not (tmp_path / "out/long.mp4/done.json").exists()
    run = make_run(video, tmp_path / "out", chunk=8)
    run.run()
    assert begun == [0, 1, 1, 2, 3, 4]  # the part that was done before is not done again
    assert statuses(run) == {"long.mp4": "done"}
    assert not (tmp_path / "out/long.mp4/.parts").exists()
    assert len(label_images(tmp_path / "out/long.mp4/labels")) == 40


def test_parts_of_another_length_are_other_parts(make_run, tmp_path, monkeypatch):
    cut_every_eight(monkeypatch)
    video = clip(tmp_path / "long.mp4", 40)
    stop_while_joining(make_run(video, tmp_path / "out", chunk=8), monkeypatch)
    run = make_run(video, tmp_path / "out", chunk=16)
    run.run()
    assert run.manifest.entries["long.mp4"].parts == 2
    lines = (tmp_path / "out/long.mp4/records.jsonl").read_text().splitlines()
    assert [json.loads(line)["index"] for line in lines] == list(range(40))
    assert len(label_images(tmp_path / "out/long.mp4/labels")) == 40


def test_joining_goes_on_where_it_was_stopped(make_run, tmp_path, monkeypatch):
    cut_every_eight(monkeypatch)
    video = clip(tmp_path / "long.mp4", 24)
    stop_while_joining(make_run(video, tmp_path / "out", chunk=8), monkeypatch)
    make_run(video, tmp_path / "out", chunk=8).run()
    assert len(label_images(tmp_path / "out/long.mp4/labels")) == 24


def stop_at_whole(publish):
    def publish_parts(self, task, folder, figures):
        if task.parts:
            raise KeyboardInterrupt
        publish(self, task, folder, figures)

    return publish_parts


def cut_every_eight(monkeypatch):
    """Videos may be cut at every eighth frame."""
    for module in (offline_module, task_module):
        monkeypatch.setattr(module, "SEAM", 8)


def stop_while_joining(run, monkeypatch):
    """Run until the parts are done and are to be joined."""
    with monkeypatch.context() as patch:
        patch.setattr(Worker, "_publish", stop_at_whole(Worker._publish))
        with pytest.raises(KeyboardInterrupt):
            run.run()


def test_where_parts_depend_on_each_other_nothing_is_cut(make_run, drives, tmp_path, monkeypatch):
    spec = stmg.ModelSpec(drives.model, {"motion": "dis"})
    assert BatchSettings(spec=spec).may_cut
    assert not BatchSettings(spec=spec, mode="online").may_cut
    assert not BatchSettings(spec=stmg.ModelSpec(drives.model, {"max_change": 0.02})).may_cut
    monkeypatch.setattr(task_module, "SEAM", 8)
    video = clip(tmp_path / "long.mp4", 40)
    assert len(Worker(BatchSettings(spec=spec, chunk=8), str(tmp_path))._cut(video)) == 5


def test_a_video_is_cut_at_multiples_of_the_chunk():
    assert cut_frames(100, 64) == (Part(0, 0, 64), Part(1, 64, 99))
    assert cut_frames(90, 64) == ()
    assert cut_frames(200, 64) == (Part(0, 0, 64), Part(1, 64, 128), Part(2, 128, 199))
    assert cut_frames(600, 64, every=3) == (Part(0, 0, 192), Part(1, 192, 384), Part(2, 384, 597))
    assert cut_frames(1000, 64, limit=130) == (Part(0, 0, 64), Part(1, 64, 129))


def test_storage_in_memory_and_by_url_gives_the_same(drives, make_run, tmp_path):
    memory = fsspec.filesystem("memory")
    memory.pipe_file("/from/a.mp4", (drives.folder / "a.mp4").read_bytes())
    run = make_run("memory://from", "memory://to")
    run.run()
    assert statuses(run) == {"a.mp4": "done"}
    local = make_run(f"file://{drives.folder}/a.mp4", f"file://{tmp_path}/out")
    local.run()
    assert statuses(local) == {"a.mp4": "done"}
    for path in sorted((tmp_path / "out/a.mp4/labels").iterdir()):
        assert memory.cat_file(f"/to/a.mp4/labels/{path.name}") == path.read_bytes()
    assert len(memory.find("/to/a.mp4")) == 23
    again = make_run("memory://from", "memory://to")
    again.run()
    assert statuses(again) == {"a.mp4": "skipped"}
    assert json.loads(memory.cat_file(f"/to/{MANIFEST}"))["status"] == "skipped"


def test_a_long_video_in_memory_is_cut_and_joined(drives, make_run, tmp_path, monkeypatch):
    cut_every_eight(monkeypatch)
    memory = fsspec.filesystem("memory")
    memory.pipe_file("/long/c.mp4", (drives.folder / "b" / "c.mp4").read_bytes())
    save = ("records", "labels", "overlay")
    run = make_run("memory://long", "memory://joined", chunk=8, save=save)
    run.run()
    assert run.manifest.entries["c.mp4"].parts == 4
    names = [name.removeprefix("/joined/c.mp4/") for name in memory.find("/joined/c.mp4")]
    assert names == [
        "done.json",
        "labels/.stmg",
        *[f"labels/{n:06d}.png" for n in range(30)],
        "overlay.mp4",
        "records.jsonl",
    ]


def test_from_python(drives, tmp_path):
    entries = stmg.batch(drives.folder, drives.model, tmp_path, save=["records"])
    assert [entry.status for entry in entries] == ["done", "done", "failed"]
    with pytest.raises(SettingsError, match="offline or online"):
        stmg.batch(drives.folder, drives.model, tmp_path, mode="realtime")
    with pytest.raises(SettingsError, match="at least 1"):
        stmg.batch(drives.folder, drives.model, tmp_path, every=0)
    with pytest.raises(stmg.StmgError):
        stmg.batch(drives.folder, "no-such-model", tmp_path / "none")
