"""What serving takes: many rendered streams over one network for minutes, and many viewers of one stream against one.

python benchmarks/serving.py streams --count 16 --fps 5 --minutes 10
python benchmarks/serving.py viewers --count 50
"""

from __future__ import annotations

import argparse
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
from urllib.parse import urlsplit

import psutil


@contextmanager
def serve(streams: list[dict[str, object]], model: str) -> Iterator[tuple[str, psutil.Process]]:
    """The address of a server in a process of its own, and that process."""
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


def get(url: str, path: str) -> list[dict[str, dict[str, float]]]:
    with urllib.request.urlopen(url + path) as answer:
        content: list[dict[str, dict[str, float]]] = json.load(answer)
        return content


def run_streams(count: int, fps: float, minutes: float, model: str) -> None:
    """Serve so many streets at once; memory, processor and frame rates on the way."""
    streams: list[dict[str, object]] = [
        {"name": f"street-{number}", "source": f"street:{900_200 + number}", "fps": fps} for number in range(count)
    ]
    with serve(streams, model) as (url, process):
        begun = time.monotonic()
        memory: list[float] = []
        print("minute  RSS MB  cores  results FPS (slowest stream)  network FPS  latency p50/p95 ms  dropped")
        while time.monotonic() - begun < 60 * minutes:
            before, then = sum(process.cpu_times()[:2]), time.monotonic()
            time.sleep(15)
            cores = (sum(process.cpu_times()[:2]) - before) / (time.monotonic() - then)
            figures = [stream["figures"] for stream in get(url, "/api/streams")]
            memory.append(process.memory_info().rss / 1e6)
            rates = [figure["process_fps"] for figure in figures]
            print(
                f"{(time.monotonic() - begun) / 60:6.2f}  {memory[-1]:6.0f}  {cores:5.2f}  {sum(rates):11.1f} "
                f"({min(rates):.1f}) {sum(figure['network_fps'] for figure in figures):26.1f}  "
                f"{statistics.median(figure['latency_p50_ms'] for figure in figures):8.1f} / "
                f"{max(figure['latency_p95_ms'] for figure in figures):.1f} "
                f"{sum(figure['dropped'] for figure in figures):9.0f}",
                flush=True,
            )
        third = max(1, len(memory) // 3)
        first, last = statistics.fmean(memory[third : 2 * third]), statistics.fmean(memory[-third:])
        print(
            f"memory of the last third against the second: {last - first:+.0f} MB ({100 * (last / first - 1):+.1f} %)"
        )


def run_viewers(count: int, model: str, seconds: float = 15.0, rounds: int = 4) -> None:
    """One viewer and many in turns; the processor time of the server in each turn."""
    with serve([{"name": "street", "source": "street:900107"}], model) as (url, process):
        costs: dict[int, list[float]] = {1: [], count: []}
        for _ in range(rounds):
            for number in costs:
                with look(url, number) as received:
                    time.sleep(2)
                    before, frames = sum(process.cpu_times()[:2]), sum(received)
                    time.sleep(seconds)
                    cores = (sum(process.cpu_times()[:2]) - before) / seconds
                    costs[number].append(cores)
                    megabytes = (sum(received) - frames) / seconds / 1e6
                    rate = get(url, "/api/streams")[0]["figures"]["process_fps"]
                    print(f"{number:3d} viewers: {cores:.3f} cores, {megabytes:.1f} MB/s, {rate:.1f} FPS", flush=True)
        one, many = (statistics.median(values) for values in costs.values())
        print(f"{count} viewers cost {100 * (many / one - 1):+.1f} % more than one")


@contextmanager
def look(url: str, count: int) -> Iterator[list[int]]:
    """So many viewers of the overlay, who read as fast as it comes; the bytes that each received."""
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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("streams", "viewers"))
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--fps", type=float, default=5.0)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--model", default="small-streets")
    options = parser.parse_args()
    if options.what == "streams":
        run_streams(options.count, options.fps, options.minutes, options.model)
    else:
        run_viewers(options.count, options.model)


if __name__ == "__main__":
    main()
