"""Uploads: a video gives overlay, labels and records; too large files and other formats are refused."""

import io
import json
import time
import zipfile
from contextlib import suppress
from pathlib import Path

import av
import psutil
import pytest

from servers import make_config, run_server
from stmg.errors import VideoError
from stmg.models.spec import ModelSpec
from stmg.serve.config import UploadLimits
from stmg.serve.uploads import UploadRefusedError, Uploads
from stmg.serve.worker import check_video
from upload_workers import die, hang, hoard
from waiting import PATIENCE, wait_for

SPEC = ModelSpec("any")


def check_ranges(running, path, whole):
    """A range that is none is ignored; one that the file does not have is refused as JSON."""

    def ask(value, **headers):
        return running.client.get(path, headers={"range": value, **headers})

    size = len(whole)
    for value, content in {
        f"bytes={size - 1}-": whole[-1:],
        f"bytes={size - 5}-{size + 99}": whole[-5:],
        "bytes=-3": whole[-3:],
        f"bytes=-{10 * size}": whole,
    }.items():
        assert (ask(value).status_code, ask(value).content) == (206, content), value
    for value in (
        "bytes=5-1",
        "bytes=",
        "bytes=-",
        "bytes=a-b",
        "bytes=0-1,5-",
        "lines=1-2",
        "x",
        "",
        "bytes=" + "9" * 5000,
    ):
        assert (ask(value).status_code, ask(value).content) == (200, whole), value
    for value in (f"bytes={size}-", "bytes=-0", "bytes=" + "9" * 18 + "-"):
        answer = ask(value)
        assert (answer.status_code, answer.headers["content-range"]) == (416, f"bytes */{size}")
        assert answer.json() == {"error": f"the file has {size} bytes"}
        assert ask(value, **{"if-range": '"another"'}).status_code == 200


def test_an_uploaded_video_comes_out(running, video):
    sent = running.client.post("/api/uploads?name=..%2Fmy%20drive.mp4", content=video.read_bytes())
    assert sent.status_code == 201
    job = sent.json()
    assert (job["name"], job["state"]) == ("my drive.mp4", "waiting")
    path = f"/api/uploads/{job['id']}"
    done = wait_for(lambda: running.get(path), lambda job: job["state"] not in ("waiting", "processing"))
    assert (done["state"], done["frames"], done["progress"]) == ("done", 30, 1.0), done
    overlay = running.client.get(f"{path}/overlay")
    with av.open(io.BytesIO(overlay.content)) as container:
        assert sum(1 for _ in container.decode(video=0)) == 30
    part = running.client.get(f"{path}/overlay", headers={"range": "bytes=0-99"})  # as browsers ask for videos
    assert (part.status_code, len(part.content)) == (206, 100)
    check_ranges(running, f"{path}/overlay", overlay.content)
    labels = zipfile.ZipFile(io.BytesIO(running.client.get(f"{path}/labels").content))
    assert len(labels.namelist()) == 30
    records = running.client.get(f"{path}/records").text.splitlines()
    assert [json.loads(line)["index"] for line in records] == list(range(30))
    assert running.client.get(f"{path}/source").status_code == 404
    assert running.client.delete(path).status_code == 204
    assert running.client.get(path).status_code == 404
    assert running.client.get(f"{path}/overlay").status_code == 404


def test_what_is_no_video_fails_with_a_reason(running):
    job = running.client.post("/api/uploads?name=list.mp4", content=b"#EXTM3U\n#EXTINF:1,\nfile:///etc/passwd\n").json()
    done = wait_for(lambda: running.get(f"/api/uploads/{job['id']}"), lambda job: job["state"] == "failed")
    assert "not a video" in done["error"]


def test_files_that_are_too_large_are_refused_with_and_without_a_length(network_file, video):
    config = make_config(network_file, {"clip": video}, uploads=UploadLimits(megabytes=0.1))
    with run_server(config) as server:
        assert server.client.post("/api/uploads", content=b"x" * 200_000).status_code == 413
        assert server.client.post("/api/uploads", content=iter([b"x" * 50_000] * 4)).status_code == 413
        assert server.get("/api/uploads") == []
        assert list(Path(server.service._folder.name).glob("uploads/*")) == []


def test_a_server_may_take_no_videos(network_file, video):
    with run_server(make_config(network_file, {"clip": video}, uploads=None)) as server:
        assert server.client.post("/api/uploads", content=b"x").status_code == 403
        assert server.get("/api/options")["uploads"] is None


@pytest.mark.parametrize("content", ["#EXTM3U\n#EXTINF:1,\nfile:///etc/passwd\n", "ffconcat version 1.0\nfile x\n", ""])
def test_playlists_are_not_opened(tmp_path, content):
    """FFmpeg would follow them to other files and addresses."""
    path = tmp_path / "source"
    path.write_text(content)
    with pytest.raises(VideoError, match="not a video"):
        check_video(path, "x.mp4", UploadLimits())


def test_long_and_large_videos_are_refused(video):
    check_video(video, "x.mp4", UploadLimits())
    with pytest.raises(VideoError, match="minutes"):
        check_video(video, "x.mp4", UploadLimits(minutes=0.01))
    with pytest.raises(VideoError, match="megapixels"):
        check_video(video, "x.mp4", UploadLimits(megapixels=0.01))


def start(tmp_path, target, **limits):
    uploads = Uploads(tmp_path, UploadLimits(**limits), target)
    uploads.start()
    job, path = uploads.begin("x.mp4", "m", SPEC)
    path.write_bytes(b"x")
    return uploads, uploads.finish(job.id, 1)


def children():
    found = []
    for process in psutil.Process().children():
        with suppress(psutil.Error):  # it has ended meanwhile
            command = " ".join(process.cmdline())
            found += [process] if "stmg-upload" in command or "spawn_main" in command else []
    return found


@pytest.mark.parametrize(
    ("target", "limits", "reason"),
    [(hang, {"work_minutes": 0.03}, "longer"), (hoard, {"memory_megabytes": 500}, "memory"), (die, {}, "died")],
)
def test_a_process_that_takes_too_much_or_dies_is_reported_and_is_gone(tmp_path, target, limits, reason):
    uploads, job = start(tmp_path, target, **limits)
    try:
        failed = wait_for(lambda: uploads.get(job.id), lambda job: job.state == "failed")
        assert reason in failed.error
        assert children() == []
    finally:
        uploads.stop()


def test_canceling_kills_and_removes(tmp_path):
    uploads, job = start(tmp_path, hang)
    try:
        wait_for(lambda: uploads.get(job.id), lambda job: job.state == "processing")
        wait_for(children, bool)
        assert uploads.remove(job.id)
        wait_for(lambda: uploads.get(job.id), lambda job: job is None)
        assert children() == []
        assert not (tmp_path / job.id).exists()
    finally:
        uploads.stop()


def test_stopping_the_server_kills_what_is_under_way(tmp_path):
    uploads, _ = start(tmp_path, hang)
    wait_for(children, bool)
    begun = time.monotonic()
    uploads.stop()
    assert time.monotonic() - begun < PATIENCE  # it would hang for longer
    assert wait_for(children, lambda found: found == []) == []


def test_the_queue_and_what_is_kept_are_bounded(tmp_path):
    now = [1000.0]
    uploads = Uploads(tmp_path, UploadLimits(waiting=1, kept=3, keep_hours=1), hang, lambda: now[0])
    first, _ = uploads.begin("1", "m", SPEC)
    uploads.begin("2", "m", SPEC)
    with pytest.raises(UploadRefusedError, match="waiting"):
        uploads.begin("3", "m", SPEC)
    for job in uploads.list():
        uploads._update(job.id, state="done")
    third, _ = uploads.begin("3", "m", SPEC)
    uploads._update(third.id, state="done")
    uploads.begin("4", "m", SPEC)
    assert uploads.get(first.id) is None  # the oldest made room
    assert not (tmp_path / first.id).exists()
    now[0] += 3601
    uploads.begin("5", "m", SPEC)
    assert [job.name for job in uploads.list()] == ["4", "5"]  # what was done is too old


def test_a_video_that_is_removed_while_it_is_sent_or_begun_is_not_worked_on(tmp_path):
    uploads = Uploads(tmp_path, UploadLimits(), hang)
    job, _ = uploads.begin("x.mp4", "m", SPEC)
    uploads.remove(job.id)
    with pytest.raises(UploadRefusedError, match="removed while"):
        uploads.finish(job.id, 1)
    job, _ = uploads.begin("x.mp4", "m", SPEC)
    uploads._update(job.id, state="canceled")  # after the process was chosen, before it was started
    begun = time.monotonic()
    uploads._process_one(job)
    assert time.monotonic() - begun < PATIENCE  # it would hang for longer
    assert uploads.get(job.id) is None
    assert children() == []
