"""The manifest of an output folder: the outcome of every video of all its runs."""

import json

import pytest

import stmg
from clips import clip
from stmg.jobs.manifest import MANIFEST


def test_more_videos_change_no_name_and_no_line_of_those_before(drives, make_run, tmp_path):
    videos, out = tmp_path / "list.txt", tmp_path / "out"
    one, two, other = (tmp_path / name for name in ("drives/a.mp4", "drives/b.mp4", "other/a.mp4"))
    for path in (one, two, other):
        path.parent.mkdir(exist_ok=True)
        clip(path, 3)
    for listed, expected in (
        ((one, two), {"a.mp4": "done", "b.mp4": "done"}),
        ((one, two, other), {"a.mp4": "skipped", "b.mp4": "skipped", "other/a.mp4": "done"}),
        ((other,), {"other/a.mp4": "skipped"}),
    ):
        videos.write_text("".join(f"{path}\n" for path in listed))
        run = make_run(videos, out)
        run.run()
        assert {name: entry.status for name, entry in run.manifest.entries.items()} == expected
    lines = [json.loads(line) for line in (out / MANIFEST).read_text().splitlines()]
    assert [line["folder"] for line in lines] == ["a.mp4", "b.mp4", "other/a.mp4"]


def test_a_video_of_the_same_name_from_elsewhere_replaces_nothing(drives, make_run, tmp_path):
    out, cameras = tmp_path / "out", [tmp_path / name / "a.mp4" for name in ("one", "two")]
    for frames, path in enumerate(cameras, 2):
        path.parent.mkdir()
        clip(path, frames)
        make_run(path, out, save=("records",)).run()
    lines = [json.loads(line) for line in (out / MANIFEST).read_text().splitlines()]
    assert [(line["video"], line["status"]) for line in lines] == [(str(path), "done") for path in cameras]
    assert lines[0]["folder"] == "a.mp4"
    for frames, line in enumerate(lines, 2):
        assert len((out / line["folder"] / "records.jsonl").read_text().splitlines()) == frames
    for path in cameras:
        run = make_run(path, out, save=("records",))
        run.run()
        assert [entry.status for entry in run.manifest.entries.values()] == ["skipped"]


def test_a_run_that_fails_leaves_the_manifest_as_it_was(drives, make_run, tmp_path):
    make_run(drives.folder / "a.mp4", tmp_path).run()
    with (tmp_path / MANIFEST).open("a") as file:
        file.write("5\n{\n")
    before = (tmp_path / MANIFEST).read_text()
    with pytest.raises(stmg.StmgError):
        make_run(drives.folder, tmp_path, model=tmp_path / "none.py:box").run()
    assert (tmp_path / MANIFEST).read_text() == before
    make_run(drives.folder / "a.mp4", tmp_path).run()
    assert json.loads((tmp_path / MANIFEST).read_text())["status"] == "skipped"  # what is no line of ours is gone


def test_a_line_is_there_as_soon_as_its_video_is_done_whatever_was_killed_before(drives, make_run, tmp_path):
    make_run(drives.folder / "a.mp4", tmp_path).run()
    with (tmp_path / MANIFEST).open("a") as file:
        file.write('{"video": "half a li')
    run, read = make_run(drives.folder, tmp_path), []

    def read_lines(entry):
        lines = [json.loads(line) for line in (tmp_path / MANIFEST).read_text().splitlines()]
        read.append([line["folder"] for line in lines])

    run.finished = read_lines
    run.run()
    assert read == [["a.mp4"], ["a.mp4", "b/c.mp4"], ["a.mp4", "b/c.mp4", "broken.mp4"]]
