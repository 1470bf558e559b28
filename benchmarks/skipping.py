"""What skipping saves on this machine: closed gates against open ones, a carried frame against a key frame.

Both sides of a ratio run in turn within one process, so that they meet the same machine. Weights are random: time does
not depend on them.

    python benchmarks/skipping.py [--repeats 15] [--threads 2]
"""

from __future__ import annotations

import argparse
import time
from statistics import median, quantiles
from typing import Any

import cv2
import torch
from rich.console import Console
from rich.table import Table

from stmg.data.synthetic.scene import Scene
from stmg.gating.accelerate import accelerate
from stmg.networks import build
from stmg.runtimes.machine import processor
from stmg.runtimes.torch import TorchRuntime
from stmg.segmenter import VideoSegmenter
from stmg.streaming.schedulers import FixedPeriod, Level

SIZE = (360, 480)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    cv2.setNumThreads(arguments.threads)
    console = Console()
    columns = ("what", "ms", "against", "ms", "ratio", "middle half")
    table = Table(*columns, title=f"{SIZE[0]}x{SIZE[1]}, batch 1")
    scene = Scene(1, SIZE)
    frames = [scene.frame(number)[0] for number in range(8 + 4 * arguments.repeats)]
    for name in ("ddrnet23-slim", "ddrnet39"):
        runtime = TorchRuntime(accelerate(build(name, 11), torch.zeros(1, 3, *SIZE)), device="cpu")
        whole, pruned = _gates(runtime, frames[0], arguments.repeats)
        _row(table, f"{name}: {runtime.num_blocks} gates open", whole, "all closed", pruned)
        for motion in ("dis", "none"):
            key, carry = _levels(runtime, frames, motion)
            _row(table, f"{name}: carried, motion {motion}", carry, "key frame", key)
    console.print(table)
    console.print(f"{processor()}, {arguments.threads} threads, torch {torch.__version__}, batch-norm folded")


def _gates(runtime: TorchRuntime, frame: Any, repeats: int) -> tuple[list[float], list[float]]:
    """Milliseconds of the network with all gates open and with all closed, in turn."""
    image, closed = runtime.prepare(frame), (False,) * runtime.num_blocks
    whole, pruned = [], []
    with torch.inference_mode():
        for _ in range(repeats + 2):
            started = time.perf_counter()
            runtime.network.full(image)
            between = time.perf_counter()
            runtime.network.partial(image, closed)
            whole.append(1000 * (between - started))
            pruned.append(1000 * (time.perf_counter() - between))
    return whole[2:], pruned[2:]


def _levels(runtime: TorchRuntime, frames: list[Any], motion: str) -> tuple[list[float], list[float]]:
    """Milliseconds of carried frames and of the key frame before each, from frame to labels, one key frame in four."""
    segmenter = VideoSegmenter(runtime, scheduler=FixedPeriod(4, Level.CARRY), motion=motion, fusion=0.0)
    keys, carried, key = [], [], 0.0
    for number, result in enumerate(segmenter.stream(frames)):
        if result.level is Level.KEY:
            key = result.latency_ms
        elif number > 8:
            keys.append(key)
            carried.append(result.latency_ms)
    return keys, carried


def _row(table: Table, what: str, one: list[float], against: str, other: list[float]) -> None:
    ratios = [a / b for a, b in zip(one, other, strict=False)]
    low, _, high = quantiles(ratios, n=4)
    table.add_row(
        what,
        f"{median(one):.2f}",
        against,
        f"{median(other):.2f}",
        f"{median(one) / median(other):.3f}",
        f"{low:.3f} to {high:.3f}",
    )


if __name__ == "__main__":
    main()
