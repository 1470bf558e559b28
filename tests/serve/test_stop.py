"""The server process stops within five seconds of a signal, with its files closed."""

import json
import re
import signal
import socket
import threading
import time

import av
import httpx
import pytest

from commands import is_one_line, run_stmg, start_stmg
from stmg.serve.run import GRACE
from stmg.serve.service import STOP_SECONDS
from waiting import PATIENCE, wait_for


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_it_stops_in_time_with_its_files_closed_though_people_look(tmp_path, network_file, video, number):
    silent = socket.create_server(("127.0.0.1", 0))  # a source that never says anything
    config = tmp_path / "streams.yaml"
    config.write_text(
        json.dumps(
            {
                "model": f"{network_file}:build",
                "streams": [
                    {"name": "clip", "source": str(video)},
                    {"name": "silent", "source": f"tcp://127.0.0.1:{silent.getsockname()[1]}"},
                ],
            }
        )
    )
    arguments = ("serve", "--config", config, "--port", 0, "--record", tmp_path / "kept")
    begun = time.monotonic()
    process = start_stmg(*arguments, before="from stmg.video import opening\nopening.NETWORK_TIMEOUT = 3600.0")
    try:
        url = re.search(r"http://\S+", process.stdout.readline())[0]
        seen = threading.Event()
        looking = threading.Thread(target=look, args=(f"{url}api/streams/clip/overlay.mjpg", seen))
        looking.start()
        assert seen.wait(PATIENCE)
        slowness = time.monotonic() - begun  # of the machine: on an idle one it takes some seconds to start
        wait_for(lambda: [len(path.read_bytes()) for path in (tmp_path / "kept").glob("clip/*.jsonl")], any)
        told = time.monotonic()
        process.send_signal(number)
        output, errors = process.communicate(timeout=PATIENCE)
        assert time.monotonic() - told < 5 + slowness
        assert process.returncode == 0, errors
        assert "stopped" in output
        assert "Traceback" not in errors
        looking.join(PATIENCE)
        assert not looking.is_alive()
    finally:
        process.kill()
        process.communicate()
        silent.close()
    (path,) = (tmp_path / "kept" / "clip").glob("*.mp4")
    records = path.with_suffix(".jsonl").read_text()
    assert records.endswith("\n")
    with av.open(str(path)) as container:
        assert sum(1 for _ in container.decode(video=0)) == len(records.splitlines())


def look(url: str, seen: threading.Event) -> None:
    with httpx.stream("GET", url, timeout=PATIENCE) as answer:
        for _ in answer.iter_raw():
            seen.set()


def test_what_is_waited_for_takes_less_than_five_seconds():
    assert GRACE + STOP_SECONDS < 5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("street:1",), "--model"),
        (("--model", "small-streets"), "source"),
        (("street:1", "--model", "small-streets", "--host", "0.0.0.0"), "token"),
        (("street:1", "--model", "nowhere"), "nowhere"),
        (("street:1", "--config", "x.yaml"), "SOURCE"),
        (("--config", "missing.yaml"), "missing.yaml"),
    ],
)
def test_mistakes_are_one_line(arguments, message):
    done = run_stmg("serve", *arguments, "--port", 0)
    assert done.returncode == 2
    assert is_one_line(done.stderr)
    assert message in done.stderr


def test_a_port_that_is_taken_is_reported():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run_stmg("serve", "street:1", "--model", "small-streets", "--port", port)
    assert done.returncode == 2
    assert f"port {port}" in done.stderr
