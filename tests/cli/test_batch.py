import json
import os
import signal

import pytest

from clips import clip
from commands import is_one_line, run_stmg, start_stmg
from waiting import PATIENCE, Held, wait_for


@pytest.fixture
def videos(samples, tmp_path):
    folder = tmp_path / "videos"
    folder.mkdir()
    for name in ("one.mp4", "two.mp4"):
        (folder / name).write_bytes(samples.video.read_bytes())
    return folder


def read_manifest(out):
    return [json.loads(line) for line in (out / "manifest.jsonl").read_text().splitlines()]


def test_a_folder_of_videos_is_segmented_and_not_again(samples, videos, tmp_path):
    (videos / "broken.mp4").write_bytes(b"nothing")
    command = ("batch", videos, "-m", samples.model, "-o", tmp_path / "out")
    done = run_stmg(*command)
    assert done.returncode == 1  # one failed
    assert "3 videos: 2 done, 1 failed, 0 skipped" in done.stdout
    assert "failed broken.mp4: " in done.stdout
    assert "done one.mp4: 20 frames" in done.stdout
    for name in ("one.mp4", "two.mp4"):
        names = {path.name for path in (tmp_path / "out" / name).iterdir()}
        assert names == {"overlay.mp4", "records.jsonl", "timeline.png", "done.json"}
    (videos / "broken.mp4").unlink()
    done = run_stmg(*command)
    assert done.returncode == 0, done.stderr
    assert "2 videos: 0 done, 0 failed, 2 skipped" in done.stdout
    statuses = {entry["folder"]: entry["status"] for entry in read_manifest(tmp_path / "out")}
    assert statuses == {"one.mp4": "skipped", "two.mp4": "skipped", "broken.mp4": "failed"}  # its line stays


def test_a_batch_writes_what_segment_writes(samples, tmp_path):
    options = (
        "-m",
        samples.model,
        "--save",
        "labels",
        "--save",
        "records",
        "--areas",
        "--scheduler",
        "drift:longest=5",
    )
    assert run_stmg("batch", samples.video, *options, "-o", tmp_path / "batch").returncode == 0
    assert run_stmg("segment", samples.video, *options, "-o", tmp_path / "segment").returncode == 0
    one, two = tmp_path / "batch" / samples.video.name, tmp_path / "segment"
    images = sorted(path.name for path in (two / "labels").glob("*.png"))
    assert len(images) == 20
    assert all((one / "labels" / name).read_bytes() == (two / "labels" / name).read_bytes() for name in images)
    records = [[json.loads(line) for line in (folder / "records.jsonl").open()] for folder in (one, two)]
    assert [entry["areas"] for entry in records[0]] == [entry["areas"] for entry in records[1]]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--mode", "realtime"), "the mode of a batch must be offline or online"),
        (("--save", "nothing"), "--save is overlay, records"),
        (("--workers", "2"), "--workers is for --ray"),
        (("--chunk", "5000", "--mode", "online"), "--chunk is for --mode offline"),
        (("--chunk", "5000", "--max-change", "2%"), "--chunk is for --mode offline without --max-change"),
        (("--out", "nowhere://x"), "nowhere://x cannot be reached"),
        (("http://[",), "http://[ is not a web address"),
        (("--fps", "0"), "fps is above 0; got 0.0"),
    ],
)
def test_mistakes_are_one_line(samples, videos, tmp_path, options, message):
    done = run_stmg("batch", videos, "-m", samples.model, "-o", tmp_path / "out", *options)
    assert done.returncode == 2
    assert is_one_line(done.stderr)
    assert message in done.stderr


def test_a_model_that_does_not_exist_fails_no_video(videos, tmp_path):
    done = run_stmg("batch", videos, "-m", tmp_path / "none", "-o", tmp_path / "out")
    assert done.returncode == 2
    assert is_one_line(done.stderr)
    assert list((tmp_path / "out").iterdir()) == []


def test_what_could_be_read_only_in_part_is_reported(samples, tmp_path):
    video = clip(tmp_path / "cut.mkv", 60)
    video.write_bytes(video.read_bytes()[: video.stat().st_size * 6 // 10])
    done = run_stmg("batch", video, "-m", samples.model, "-o", tmp_path / "out", "--save", "records")
    assert done.returncode == 0, done.stderr
    (note,) = (line for line in done.stdout.splitlines() if line.startswith("cut.mkv: "))
    assert "of 2.4 seconds" in note


def test_an_interruption_keeps_what_is_done(videos, tmp_path):
    held, out = Held(tmp_path), tmp_path / "out"
    model = held.write_network(tmp_path / "held.py", call=30)  # in the second video of twenty frames
    options = ("-m", model, "-o", out, "--scheduler", "always-key", "--motion", "dis", "--save", "records")
    process = start_stmg("batch", videos, *options)
    held.wait(process)
    wait_for(lambda: (out / "one.mp4" / "done.json").exists() and any((out / ".work").glob("*/records.jsonl")))
    os.kill(process.pid, signal.SIGINT)
    held.release()
    printed, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert "interrupted; the same command goes on with what is missing" in printed
    assert {path.name for path in out.iterdir()} == {"one.mp4", "manifest.jsonl"}
    assert [(entry["folder"], entry["status"]) for entry in read_manifest(out)] == [("one.mp4", "done")]
    done = run_stmg("batch", videos, *options)
    assert "2 videos: 1 done, 0 failed, 1 skipped" in done.stdout
