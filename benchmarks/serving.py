"""Resources of `stmg serve`: many rendered streams over one network, and many viewers of one stream.

python -m benchmarks.serving streams --count 16 --fps 5 --minutes 10
python -m benchmarks.serving viewers --count 50
"""

from __future__ import annotations

import json
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil

from benchmarks.measurement import Numbers, finish, make_parser

COLUMNS = {
    "streams": {
        "fps": ("results FPS", "{:.1f}"),
        "slowest": ("slowest stream", "{:.1f}"),
        "cores": ("cores", "{:.2f}"),
        "p50": ("p50 ms", "{:.1f}"),
        "p95": ("p95 ms", "{:.1f}"),
        "dropped": ("dropped", "{:.0f}"),
        "MB": ("MB", "{:.0f}"),
        "growth": ("last third against the second, MB", "{:+.0f}"),
    },
    "viewers": {
        "cores": ("cores", "{:.2f}"),
        "least": ("least", "{:.2f}"),
        "most": ("most", "{:.2f}"),
        "sent": ("MB/s", "{:.0f}"),
    },
}
"""The columns of each measurement."""


@contextmanager
def serve(streams: list[dict[str, object]], model: str) -> Iterator[tuple[str, psutil.Process]]:
    """Start a server in a process of its own; gives its URL and the process."""
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "streams.yaml"
        config.write_text(json.dumps({"model": model, "streams": streams}))
        command = [sys.executable, "-m", "stmg", "serve", "--config", str(config), "--port", "0"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            found = re.search(r"http://\S+", process.stdout.readline())
            assert found is not None
            url = found[0].rstrip("/")
            while any(stream["status"]["state"] != "live" for stream in get(url, "/api/streams")):
                time.sleep(0.5)
            yield url, psutil.Process(process.pid)
        finally:
            process.terminate()
            begun = time.monotonic()
            process.wait()
            print(f"stopped {time.monotonic() - begun:.1f} s after SIGTERM, exit code {process.returncode}")


def get(url: str, path: str) -> list[dict[str, dict[str, Any]]]:
    with urllib.request.urlopen(url + path) as answer:
        content: list[dict[str, dict[str, Any]]] = json.load(answer)
        return content


def run_streams(count: int, fps: float, minutes: float, model: str) -> dict[str, Numbers]:
    """Serve `count` streets at once. Gives medians of samples every 15 seconds, and the memory at the end."""
    streams: list[dict[str, object]] = [
        {"name": f"street-{number}", "source": f"street:{900_200 + number}", "fps": fps} for number in range(count)
    ]
    with serve(streams, model) as (url, process):
        begun = time.monotonic()
        samples: list[dict[str, float]] = []
        while time.monotonic() - begun < 60 * minutes:
            before, then = sum(process.cpu_times()[:2]), time.monotonic()
            time.sleep(15)
            cores = (sum(process.cpu_times()[:2]) - before) / (time.monotonic() - then)
            figures = [stream["figures"] for stream in get(url, "/api/streams")]
            rates = [figure["process_fps"] for figure in figures]
            samples.append(
                {
                    "fps": sum(rates),
                    "slowest": min(rates),
                    "cores": cores,
                    "p50": statistics.median(figure["latency_p50_ms"] for figure in figures),
                    "p95": max(figure["latency_p95_ms"] for figure in figures),
                    "dropped": sum(figure["dropped"] for figure in figures),
                    "MB": process.memory_info().rss / 1e6,
                }
            )
            print(", ".join(f"{key} {value:.1f}" for key, value in samples[-1].items()), flush=True)
    third = max(1, len(samples) // 3)
    first, last = (
        statistics.fmean(sample["MB"] for sample in part) for part in (samples[third : 2 * third], samples[-third:])
    )
    row = {key: statistics.median(sample[key] for sample in samples) for key in samples[0]}
    row |= {"dropped": samples[-1]["dropped"], "MB": samples[-1]["MB"], "growth": last - first}
    return {f"{count} streams of {fps:g} FPS, {minutes:g} minutes": row}


def run_viewers(count: int, model: str, seconds: float = 15.0, rounds: int = 4) -> dict[str, Numbers]:
    """Connect one viewer and many in turns; gives the processor time of the server with each."""
    with serve([{"name": "street", "source": "street:900107"}], model) as (url, process):
        costs: dict[int, list[float]] = {1: [], count: []}
        sent: dict[int, list[float]] = {1: [], count: []}
        for _ in range(rounds):
            for number in costs:
                with watch_overlay(url, number) as received:
                    time.sleep(2)
                    before, frames = sum(process.cpu_times()[:2]), sum(received)
                    time.sleep(seconds)
                    cores = (sum(process.cpu_times()[:2]) - before) / seconds
                    costs[number].append(cores)
                    sent[number].append((sum(received) - frames) / seconds / 1e6)
    return {
        f"{number} viewer{'s' if number > 1 else ''}": {
            "cores": statistics.median(values),
            "least": min(values),
            "most": max(values),
            "sent": statistics.median(sent[number]),
        }
        for number, values in costs.items()
    }


@contextmanager
def watch_overlay(url: str, count: int) -> Iterator[list[int]]:
    """Connect `count` viewers of the overlay, which read as fast as they can; gives the bytes received by each."""
    address = urlsplit(url)
    received, stopped, threads = [0] * count, threading.Event(), []
    request = f"GET /api/streams/street/overlay.mjpg HTTP/1.1\r\nHost: {address.netloc}\r\n\r\n".encode()

    def read(number: int) -> None:
        with socket.create_connection((address.hostname or "", address.port or 80), timeout=10) as connection:
            connection.sendall(request)
            while not stopped.is_set():
                received[number] += len(connection.recv(1 << 18))

    for number in range(count):
        threads.append(threading.Thread(target=read, args=(number,)))
        threads[-1].start()
    try:
        yield received
    finally:
        stopped.set()
        for thread in threads:
            thread.join()


def main() -> None:
    parser = make_parser("serving", __doc__)
    parser.add_argument("what", choices=("streams", "viewers"))
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--fps", type=float, default=5.0)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--model", default="small-streets")
    options = parser.parse_args()
    if options.what == "streams":
        rows = run_streams(options.count, options.fps, options.minutes, options.model)
    else:
        rows = run_viewers(options.count, options.model)
    finish("serving", options.out, f"{options.model}, {options.what}", COLUMNS[options.what], rows)


if __name__ == "__main__":
    main()
