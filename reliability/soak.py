"""Soak: long streams in each mode, a source that keeps disconnecting, and many streams over one model.

From source to outputs, as in `stmg segment`, memory, file descriptors and threads must not grow after the first
frames of a stream.

    python -m reliability.soak [--frames 100000] [--drops 20] [--streams 64]
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from reliability.processes import Limits, Run, preload
from reliability.report import OUT, Check, Progress, finish

if TYPE_CHECKING:
    from stmg.segmenter import VideoSegmenter
    from stmg.streaming.result import FrameResult

FRAMES, DROPS, STREAMS = 100_000, 20, 64
SIZE = (48, 64)
RATE = 25
PIECE = 500  # frames of a video, repeated for a longer one
WARM_UP = 1000  # frames after which nothing may grow
GROWTH = 0.01  # of resident memory
PER_STREAM = 40  # frames of each stream beside others
NUM_CLASSES = 5


@dataclass
class Usage:
    """Resources of a process while it streams."""

    frames: int = 0
    seconds: float = 0.0
    memory: int = 0
    """Bytes resident after the first frames."""
    most_memory: int = 0
    """From there on."""
    files: int = 0
    """Most file descriptors during the first frames."""
    most_files: int = 0
    threads: int = 0
    """Most threads during the first frames."""
    most_threads: int = 0
    backwards: int = 0
    """Frames with an earlier time than the frame before."""
    dropped: int = 0
    connections: int = 0

    @property
    def growth(self) -> float:
        return self.most_memory / max(self.memory, 1) - 1


class Watch:
    """Measures the resources of this process, result by result."""

    def __init__(self, what: str, total: int, warm_up: int) -> None:
        self.usage, self._warm_up = Usage(), warm_up
        self._process, self._last = psutil.Process(), -1.0
        self._every = max(1, total // 200)
        self._progress = Progress(what, total)
        self._begun, self._shown = time.monotonic(), 0

    def add(self, result: FrameResult) -> None:
        usage = self.usage
        usage.frames += 1
        usage.backwards += int(result.time is not None and result.time < self._last)
        self._last = self._last if result.time is None else result.time
        if usage.frames == self._warm_up or usage.frames % self._every == 0:
            self._measure()
        usage.seconds = time.monotonic() - self._begun

    def _measure(self) -> None:
        usage, process = self.usage, self._process
        memory, files, threads = process.memory_info().rss, process.num_fds(), process.num_threads()
        if usage.frames <= self._warm_up:
            usage.memory, usage.files, usage.threads = memory, max(usage.files, files), max(usage.threads, threads)
        usage.most_memory = memory if usage.frames <= self._warm_up else max(usage.most_memory, memory)
        usage.most_files, usage.most_threads = max(usage.most_files, files), max(usage.most_threads, threads)
        self._progress.advance(f"{memory / 2**20:.1f} MB, {files} files, {threads} threads", usage.frames - self._shown)
        self._shown = usage.frames


def build_segmenter() -> VideoSegmenter:
    """A segmenter of a small untrained network: resources do not depend on the weights."""
    import torch

    import stmg
    from stmg.gating.accelerate import accelerate
    from stmg.networks import build

    torch.manual_seed(0)
    torch.set_num_threads(1)
    network = accelerate(build("small", NUM_CLASSES), torch.zeros(1, 3, *SIZE), mask_generator=True)
    return stmg.VideoSegmenter(network, device="cpu")


def soak_mode(mode: str, num_frames: int, folder: Path) -> Usage:
    """Stream a file in one mode into overlay, records and timeline."""
    from reliability.media import write_video
    from stmg.video.sources import open_video

    piece = write_video(folder / "piece.ts", PIECE, SIZE, RATE).read_bytes()
    video = folder / f"{mode}.ts"
    with video.open("wb") as file:
        for _ in range(-(-num_frames // PIECE)):
            file.write(piece)
    watch = Watch(mode, num_frames, min(WARM_UP, num_frames // 3))
    with open_video(video, limit=num_frames) as source:
        _stream(source, mode, folder, watch)
    return watch.usage


def soak_reconnects(drops: int, folder: Path) -> Usage:
    """Stream a live source in realtime that keeps disconnecting and coming back."""
    from reliability.media import write_video
    from reliability.streams import DroppingServer
    from stmg.video.sources import open_video

    piece = write_video(folder / "piece.ts", 2 * RATE, SIZE, RATE).read_bytes()
    server = DroppingServer(piece, drops, folder / "server")
    first = min(5, drops // 2 + 1)  # connections after which nothing may grow
    watch = Watch("frames of a source that disconnects", 2 * RATE * (drops + 1), 2 * RATE * first)
    try:
        with open_video(server.url, ahead=4 * RATE) as source:

            def until_last() -> Any:
                for frame in source:
                    yield frame
                    if frame.index == 2 * RATE * (drops + 1) - 2:  # the last one stays with the decoder
                        return

            _stream(until_last(), "realtime", folder, watch)
            watch.usage.dropped = source.dropped
        watch.usage.connections = server.connections
    finally:
        server.close()
    return watch.usage


def _stream(source: Any, mode: str, folder: Path, watch: Watch) -> None:
    from stmg.outputs.records import Records
    from stmg.outputs.sinks import BackgroundSink, Sinks
    from stmg.outputs.timeline import Timeline
    from stmg.outputs.videos import OverlayVideo
    from stmg.streaming.statistics import Statistics

    outputs = Sinks(
        OverlayVideo(folder / "overlay.mp4", RATE),
        Records(folder / "records.jsonl", areas=True),
        Timeline(folder / "timeline.png"),
    )
    statistics = Statistics(mode)
    with BackgroundSink(outputs) as sink:
        for result in build_segmenter().stream(source, mode=mode):
            sink.write(result)
            statistics.add(result)
            watch.add(result)


def run_alone(function: Callable[[Path], Usage], folder: Path) -> Usage | None:
    """Run a function in a process of its own; its usage, or None if it failed, in which case the error is printed."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)

    def call() -> None:
        os.dup2(terminal, 1)  # progress goes to the terminal
        (folder / "usage.json").write_text(json.dumps(asdict(function(folder))))

    terminal = os.dup(1)
    ending = Run(call, folder / "log", Limits(seconds=4 * 3600, memory=4 << 30)).finish()
    os.close(terminal)
    if ending.code or ending.stopped:
        print(ending.error, file=sys.stderr)
        return None
    return Usage(**json.loads((folder / "usage.json").read_text()))


def check_usage(name: str, usage: Usage | None, expected: int) -> list[Check]:
    """Check that all frames came and nothing grew."""
    if usage is None:
        return [Check(name, "failed", False)]
    speed = f"{usage.frames} frames in {usage.seconds / 60:.1f} min"
    memory = f"{usage.memory / 2**20:.1f} MB, at most {usage.most_memory / 2**20:.1f} later: {usage.growth:+.2%}"
    held = f"{usage.most_files - usage.files:+d} file descriptors, {usage.most_threads - usage.threads:+d} threads"
    fits = usage.most_files <= usage.files and usage.most_threads <= usage.threads
    return [
        Check(f"{name}: every frame, in order", speed, usage.frames == expected and not usage.backwards),
        Check(f"{name}: resident memory grows by less than {GROWTH:.0%}", memory, usage.growth < GROWTH),
        Check(f"{name}: no more files or threads", held, fits),
    ]


def check_reconnects(usage: Usage | None, drops: int) -> list[Check]:
    """Check that every connection was used and nothing grew."""
    name = f"TCP source dropped {drops} times"
    if usage is None:
        return [Check(name, "failed", False)]
    _, memory, held = check_usage(name, usage, usage.frames)
    came = f"{usage.connections} connections, {usage.frames} frames, {usage.dropped} dropped by us"
    complete = usage.connections == drops + 1 and usage.frames + usage.dropped >= (drops + 1) * 2 * (RATE - 1)
    return [Check(f"{name}: comes back each time", came, complete and not usage.backwards), memory, held]


def check_streams(num_streams: int) -> list[Check]:
    from reliability.streams import run_side_by_side

    checks = []
    for mode in ("online", "offline"):
        trial = run_side_by_side(build_segmenter(), mode, num_streams, PER_STREAM, SIZE)
        text = f"{trial.frames} frames, {len(trial.different)} streams differ"
        checks.append(Check(f"{num_streams} streams in threads, {mode}: labels as alone", text, not trial.different))
    return checks


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frames", type=int, default=FRAMES)
    parser.add_argument("--drops", type=int, default=DROPS)
    parser.add_argument("--streams", type=int, default=STREAMS)
    parser.add_argument("--out", type=Path, default=OUT / "soak")
    arguments = parser.parse_args()
    begun = time.monotonic()
    preload()
    out, checks = arguments.out.resolve(), list[Check]()
    for mode in ("offline", "online", "realtime"):
        usage = run_alone(partial(soak_mode, mode, arguments.frames), out / mode)
        checks += check_usage(mode, usage, arguments.frames)
    usage = run_alone(partial(soak_reconnects, arguments.drops), out / "tcp")
    checks += check_reconnects(usage, arguments.drops)
    checks += check_streams(arguments.streams)
    full = arguments.frames >= FRAMES and arguments.drops >= DROPS and arguments.streams >= STREAMS
    sys.exit(finish("soak", checks, begun, full=full))


if __name__ == "__main__":
    main()
