"""Videos on the web: recognized in each run, and written down without secrets."""

from __future__ import annotations

import json
import os
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import fsspec
import pytest

from clips import clip
from stmg.errors import SettingsError
from stmg.jobs.manifest import MANIFEST
from stmg.jobs.storage import Folder
from stmg.jobs.videos import find_videos
from stmg.video.addresses import hide_secrets, public_address

pytest.importorskip("aiohttp", reason="fsspec reads http:// by it")
SIGNATURE = "X-Amz-Signature=" + "secret" * 50  # longer than a file name may be


class Handler(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture
def web(tmp_path):
    """A folder, and the address under which a server shows it."""
    folder = tmp_path / "web"
    folder.mkdir()
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield folder, f"127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("source", "address"),
    [
        ("/drives/a=1&b.mp4", "/drives/a=1&b.mp4"),
        ("s3://bucket/day=1/a?b.mp4", "s3://bucket/day=1/a?b.mp4"),
        ("https://me:secret@host:81/day=1/a.mp4?sig=secret#part", "https://host:81/day=1/a.mp4"),
        ("https://host/a.mp4?path=/b/c", "https://host/a.mp4"),
    ],
)
def test_an_address_is_known_without_what_is_secret(source, address):
    assert public_address(source) == address


def test_a_query_that_may_say_which_video_it_is_counts():
    one, two = (public_address(f"https://me:secret@host/get?id={number}") for number in (1, 2))
    assert one.startswith("https://host/get#")
    assert one != two


def test_a_reason_does_not_repeat_what_is_secret():
    source = "http://me:secret@h/a.mp4?sig=secret"
    assert hide_secrets(f"403, url='{source}'", source) == "403, url='http://h/a.mp4'"
    assert hide_secrets("no s3://bucket/day=1/a.mp4", "s3://bucket/day=1/a.mp4") == "no s3://bucket/day=1/a.mp4"


@pytest.mark.parametrize("rest", ["[", "[::1/a.mp4", "host:port/a.mp4", "host:99999/a.mp4", "/a.mp4", "[/list.txt"])
@pytest.mark.parametrize("use", [lambda address: find_videos([address]), Folder])
def test_what_is_no_address_is_refused_without_what_is_secret(rest, use):
    with pytest.raises(SettingsError, match=r"^http://\S+ is not a web address; give one like https://") as error:
        use(f"http://me:secret@{rest}?sig=secret")
    assert "secret" not in str(error.value)


def test_a_signed_address_is_segmented_once_and_written_down_without_its_signature(web, make_run, tmp_path):
    folder, host = web
    clip(folder / "a.mp4", 3)
    (folder / "broken.mp4").write_bytes(b"no video at all" * 100)
    listed = tmp_path / "list.txt"
    for run_number, status in ((1, "done"), (2, "skipped")):
        names = ("a.mp4", "broken.mp4")
        listed.write_text("".join(f"http://me:secret@{host}/{name}?{SIGNATURE}{run_number}\n" for name in names))
        run = make_run(listed, tmp_path / "out", save=("records",))
        run.run()
        assert {name: entry.status for name, entry in run.manifest.entries.items()} == {
            "a.mp4": status,
            "broken.mp4": "failed",
        }
    lines = [json.loads(line) for line in (tmp_path / "out" / MANIFEST).read_text().splitlines()]
    assert [line["video"] for line in lines] == [f"http://{host}/a.mp4", f"http://{host}/broken.mp4"]
    written = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert not [path for path in written if b"secret" in path.read_bytes()]


def test_a_video_of_a_listing_that_has_changed_is_another(web):
    folder, host = web
    (folder / "a.mp4").write_bytes(b"1234")
    stamps, sizes = set(), []
    for moment in (1_000_000_000, 1_100_000_000):
        os.utime(folder / "a.mp4", (moment, moment))
        for argument in (f"http://{host}/", f"http://{host}/*.mp4", f"http://{host}/a.mp4"):
            (video,) = find_videos([argument])
            stamps.add(video.stamp)
            sizes.append(video.size)
            assert video.name == "a.mp4"
    assert len(stamps) == 2
    assert sizes == [4] * 6


def test_a_name_that_is_too_long_fails_its_video_and_no_other(drives, make_run, tmp_path):
    memory, name = fsspec.filesystem("memory"), f"{'a' * 300}.mp4"
    for path in ("/lengths/b.mp4", f"/lengths/{name}"):
        memory.pipe_file(path, (drives.folder / "a.mp4").read_bytes())
    run = make_run("memory://lengths", tmp_path, save=("records",))
    run.run()
    entries = run.manifest.entries
    assert {name: entry.status for name, entry in entries.items()} == {name: "failed", "b.mp4": "done"}
    assert "name too long" in entries[name].reason
