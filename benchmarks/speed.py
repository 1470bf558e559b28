"""Speed of a network on this machine: steps of optimization, closed gates and carried frames, measured in turns.

python -m benchmarks.speed pytorch [--network ddrnet39]   # inference mode, folding, channels last, torch.compile
python -m benchmarks.speed skipping                       # closed gates, and a carried frame against a key frame
python -m benchmarks.speed macs                           # MACs at the size of the paper, which take no measuring

Weights are random: time does not depend on them. torch.compile needs a C++ compiler.
"""

from __future__ import annotations

import copy
import time
from collections import deque
from collections.abc import Callable, Sequence
from statistics import median, quantiles
from typing import Any

import cv2
import torch
from torch import nn

from benchmarks.measurement import finish, make_parser
from stmg.data.synthetic.scene import Scene
from stmg.gating.accelerate import accelerate
from stmg.gating.optimize import fold_batch_norm
from stmg.networks import build
from stmg.runtimes.torch import TorchRuntime
from stmg.segmenter import VideoSegmenter
from stmg.streaming.schedulers import FixedPeriod, Level

SIZE = (360, 480)
PAPER_SIZE, CITYSCAPES = (1024, 2048), 19
PAPER_NETWORKS = ("ddrnet23-slim", "ddrnet39")
WARM_UP = 3
FIRST = "as it is, no gradients"


def main() -> None:
    parser = make_parser("speed", __doc__)
    parser.add_argument("what", choices=("pytorch", "skipping", "macs"))
    parser.add_argument("--network", default="ddrnet23-slim", help="of pytorch; skipping takes both of the paper's")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    cv2.setNumThreads(arguments.threads)
    torch.manual_seed(0)
    if arguments.what == "macs":
        columns = {"macs": ("GMACs", "{:.1f}"), "without head": ("without head, as in the paper", "{:.1f}")}
        title = f"Multiply-accumulates at {PAPER_SIZE[0]}x{PAPER_SIZE[1]}, {CITYSCAPES} classes"
        finish("speed", arguments.out, title, columns, {name: count_macs(name) for name in PAPER_NETWORKS})
        return
    if arguments.what == "pytorch":
        spent = in_turns(_steps(build(arguments.network, 11).eval(), torch.rand(1, 3, *SIZE)), arguments.repeats)
        rows = {how: _row(times, spent[FIRST]) for how, times in spent.items()}
        title = f"{arguments.network}, each step with those above it, relative to the first"
    else:
        rows = {}
        scene = Scene(1, SIZE)
        frames = [scene.frame(number)[0] for number in range(8 + 4 * arguments.repeats)]
        for name in PAPER_NETWORKS:
            runtime = TorchRuntime(accelerate(build(name, 11), torch.zeros(1, 3, *SIZE)), device="cpu")
            rows[f"{name}, gates closed"] = _row(*_gates(runtime, frames[0], arguments.repeats))
            for motion in ("dis", "none"):
                rows[f"{name}, carried, motion {motion}"] = _row(*_levels(runtime, frames, motion))
        title = "Closed gates relative to open ones, a carried frame relative to the key frame before it"
    columns = {
        "ms": ("ms", "{:.2f}"),
        "other": ("of the other, ms", "{:.2f}"),
        "share": ("share", "{:.1f} %"),
        "low": ("middle half from", "{:.1f} %"),
        "high": ("to", "{:.1f} %"),
    }
    note = f"{SIZE[0]}x{SIZE[1]}, batch 1, {arguments.threads} threads, torch {torch.__version__}"
    finish("speed", arguments.out, title, columns, rows, note=note)


def count_macs(name: str) -> dict[str, float]:
    """Billions of multiply-accumulates of a whole frame, with and without the head."""
    runtime = TorchRuntime(accelerate(build(name, CITYSCAPES), torch.zeros(1, 3, *SIZE)), device="cpu")
    cost = runtime.cost(PAPER_SIZE, Level.KEY, (True,) * runtime.num_blocks, 1.0, masked=False)
    assert cost is not None
    return {"macs": cost.macs / 1e9, "without head": (cost.macs - cost.head_macs) / 1e9}


def in_turns(ways: dict[str, Callable[[], Any]], repeats: int) -> dict[str, list[float]]:
    """Time each function in turns, so that all meet the same machine; milliseconds without the first turns."""
    spent: dict[str, list[float]] = {how: [] for how in ways}
    order = deque(ways)
    for turn in range(repeats + WARM_UP):
        order.rotate()  # the first of a turn finds cold caches
        for how in order:
            started = time.perf_counter()
            ways[how]()
            if turn >= WARM_UP:
                spent[how].append(1000 * (time.perf_counter() - started))
    return spent


def _row(times: Sequence[float], others: Sequence[float]) -> dict[str, float]:
    """Medians in milliseconds, and the first in percent of the second, turn by turn."""
    low, middle, high = quantiles([100 * one / other for one, other in zip(times, others, strict=False)], n=4)
    return {"ms": median(times), "other": median(others), "share": middle, "low": low, "high": high}


def _steps(network: nn.Module, image: torch.Tensor) -> dict[str, Callable[[], Any]]:
    folded = copy.deepcopy(network)
    fold_batch_norm(folded, image)
    last, last_image = copy.deepcopy(folded), image.contiguous(memory_format=torch.channels_last)
    last.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    compiled = copy.deepcopy(last)
    compiled.compile()
    return {
        FIRST: torch.no_grad()(lambda: network(image)),
        "inference mode": torch.inference_mode()(lambda: network(image)),
        "batch-norms folded": torch.inference_mode()(lambda: folded(image)),
        "channels last": torch.inference_mode()(lambda: last(last_image)),
        "torch.compile": torch.inference_mode()(lambda: compiled(last_image)),
    }


def _gates(runtime: TorchRuntime, frame: Any, repeats: int) -> tuple[list[float], list[float]]:
    """Milliseconds of the network with all gates closed and with all open."""
    image, closed = runtime.prepare(frame), (False,) * runtime.num_blocks
    ways = {
        "closed": torch.inference_mode()(lambda: runtime.network.partial(image, closed)),
        "open": torch.inference_mode()(lambda: runtime.network.full(image)),
    }
    spent = in_turns(ways, repeats)
    return spent["closed"], spent["open"]


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
    return carried, keys


if __name__ == "__main__":
    main()
