"""Image folders in storage: those of earlier runs are replaced, other files stay."""

import os

import pytest

from stmg.jobs import task
from stmg.jobs.storage import Folder, fetch, open_storage
from stmg.jobs.worker import Worker
from stmg.streaming import offline


@pytest.mark.parametrize(("storage", "chunk"), [("local", 0), ("local", 8), ("memory", 0)])
def test_image_folders_that_no_run_wrote_stay_as_they_are(drives, make_run, tmp_path, monkeypatch, storage, chunk):
    for module in (offline, task):  # parts of eight frames
        monkeypatch.setattr(module, "SEAM", 8)
    out = str(tmp_path / "theirs") if storage == "local" else "memory://theirs"
    system, path = open_storage(out)
    theirs = f"{path}/a.mp4/labels/hand.png"
    stream = Worker._stream

    def draw_meanwhile(self, *arguments):
        system.makedirs(f"{path}/a.mp4/labels", exist_ok=True)
        system.pipe_file(theirs, b"by hand")
        return stream(self, *arguments)

    def check_refused():
        run = make_run(drives.folder / "a.mp4", out, chunk=chunk)
        run.run()
        entry = run.manifest.entries["a.mp4"]
        assert entry.status == "failed"
        assert "holds files that stmg did not write; choose another output folder" in entry.reason
        assert system.cat_file(theirs) == b"by hand"

    monkeypatch.setattr(Worker, "_stream", draw_meanwhile)
    check_refused()  # before they would be removed
    monkeypatch.setattr(Worker, "_stream", None)
    check_refused()  # before anything is segmented
    monkeypatch.setattr(Worker, "_stream", stream)
    system.rm_file(theirs)
    for every in (1, 2):  # what a run wrote is replaced
        run = make_run(drives.folder / "a.mp4", out, every=every, chunk=chunk)
        run.run()
        assert run.manifest.entries["a.mp4"].status == "done"
        assert len(system.find(f"{path}/a.mp4/labels")) == 20 // every + 1


@pytest.mark.parametrize("storage", ["local", "memory"])
def test_no_output_of_an_earlier_run_stays_beside_those_of_another(drives, make_run, tmp_path, storage):
    out = str(tmp_path / "mixed") if storage == "local" else "memory://mixed"
    system, path = open_storage(out)
    folder = f"{path}/a.mp4"
    make_run(drives.folder / "a.mp4", out, save=("records", "overlay", "labels")).run()
    system.makedirs(f"{folder}/cutout", exist_ok=True)
    system.pipe_file(f"{folder}/cutout/hand.png", b"by hand")
    make_run(drives.folder / "a.mp4", out, save=("timeline",), every=2, chunk=0).run()
    names = {name.removeprefix(f"{folder}/") for name in system.find(folder)}
    assert names == {"timeline.png", "done.json", "cutout/hand.png"}


def test_a_name_is_no_pattern(tmp_path):
    folder = Folder("memory://patterns")
    images = ("labels/.stmg", "labels/0.png")

    def write(*names):
        for name in names:
            folder.write(name, name.encode())

    def names():
        return [path.removeprefix("/patterns/") for path in folder.system.find("/patterns")]

    others = [f"a 1.mp4/{name}" for name in ("done.json", *images)]
    write(*others, "a [1].mp4/done.json", *(f"a [1].mp4/{name}" for name in images))
    with fetch("memory://patterns/a [1].mp4") as copy:
        assert (copy / "labels/0.png").read_bytes() == b"a [1].mp4/labels/0.png"
    folder.remove("a [1].mp4/done.json")
    folder.remove_images("a [1].mp4/labels")
    assert names() == others
    write("a [1].mp4/.parts/0/labels/5.png")
    folder.move_into("a [1].mp4/.parts/0/labels", "a [1].mp4/labels")
    assert names() == [*others, "a [1].mp4/labels/5.png"]
    folder.remove("a [1].mp4")
    work = tmp_path / "[1]"
    (work / "labels").mkdir(parents=True)
    for name in images:
        (work / name).write_bytes(b"")
    for _ in range(2):  # the second in the place of the first
        folder.publish(work, "a [1].mp4")
        assert names() == [*others, *(f"a [1].mp4/{name}" for name in images)]


def test_images_whose_removal_was_stopped_are_still_those_of_a_run(tmp_path, monkeypatch):
    folder = Folder(str(tmp_path))
    for name in (".stmg", *(f"{number:06d}.png" for number in range(30))):
        folder.write(f"labels/{name}", b"")

    def stop_after(remove):
        def remove_one(*path, **options):
            remove(*path, **options)
            raise KeyboardInterrupt

        return remove_one

    for name in ("remove", "unlink"):
        monkeypatch.setattr(os, name, stop_after(getattr(os, name)))
    stops = 0
    while (tmp_path / "labels").exists():
        try:
            folder.remove_images("labels")
        except KeyboardInterrupt:
            stops += 1
    assert stops > 1
    assert list(tmp_path.iterdir()) == []
