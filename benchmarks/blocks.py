"""What the choice of blocks is worth: each block alone, patterns at random beside the learned ones, and how gates vary.

Every second frame is computed whole, the one after it partially, as in the paper: nothing is warped, masks are as
generated. Whole frames and masks are computed once; then only what blocks run differs.

    python benchmarks/blocks.py MODEL CAMVID [--scale 1.0] [--patterns 10] [--out out/blocks.json]
"""

from __future__ import annotations

import argparse
import copy
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

import stmg
from stmg.data.catalogue import open_dataset
from stmg.evaluation.machine import this_machine
from stmg.evaluation.measuring.accuracy import ConfusionMatrix
from stmg.runtimes.torch import TorchRuntime
from stmg.streaming.masks import Masks
from stmg.streaming.runtime import Runtime
from stmg.streaming.schedulers import Level
from stmg.video.labels import Labels

Keep = tuple[bool, ...]


class Case(NamedTuple):
    """A frame to compute partially, and the whole frame before it."""

    image: Any
    masks: Masks
    previous: Any
    truth: Labels


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("data")
    parser.add_argument("--split", default="val")
    parser.add_argument("--size", type=int, nargs=2, default=(360, 480), metavar=("H", "W"))
    parser.add_argument("--scale", type=float, default=1.0, help="of partial frames")
    parser.add_argument("--patterns", type=int, default=10, help="random patterns")
    parser.add_argument("--only", default="", help="rows whose name contains this")
    parser.add_argument("--out", type=Path, default=Path("out/blocks.json"))
    arguments = parser.parse_args()
    size, runtime = tuple(arguments.size), stmg.load(arguments.model, runtime="torch").runtime
    assert isinstance(runtime, TorchRuntime)
    cases, whole = find_cases(runtime, arguments.data, arguments.split, size)
    blocks = runtime.num_blocks
    learned = [case.masks.keep for case in cases]
    rng = np.random.default_rng(0)
    fixed = [tuple(map(bool, rng.permutation(learned[0]))) for _ in range(arguments.patterns)]
    trials: dict[str, Callable[[int], Keep]] = {
        "all blocks": lambda index: (True,) * blocks,
        "no block": lambda index: (False,) * blocks,
        "learned": lambda index: learned[index],
        "learned, most frequent pattern": lambda index: max(set(learned), key=learned.count),
        "random on each frame": lambda index: tuple(map(bool, rng.permutation(learned[index]))),
        **{f"all but block {block}": _without(block, blocks) for block in range(blocks)},
        **{f"random pattern {number}": _always(pattern) for number, pattern in enumerate(fixed)},
    }
    untrained = without_second_stage(runtime)
    runs = [(name, runtime, keep) for name, keep in trials.items()]
    runs += [(f"{name}, not fine-tuned", untrained, trials[name]) for name in ("all blocks", "random on each frame")]
    runs = [run for run in runs if arguments.only in run[0]]
    with runtime.exact_patterns():
        scores = {
            name: score(which, cases, keep, arguments.scale, size)
            for name, which, keep in track(runs, "blocks", console=Console(stderr=True))
        }
    gates = np.array(learned, float)
    closed, distortion = 1 - gates.mean(1), np.array([case.masks.changed.mean() for case in cases])
    varied = closed.std() > 0 and distortion.std() > 0
    result = {
        "machine": asdict(this_machine()),
        "model": arguments.model,
        "scale": arguments.scale,
        "frames": len(cases),
        "whole": whole,
        "miou": scores,
        "share_open": {str(block): round(float(share), 3) for block, share in enumerate(gates.mean(0))},
        "patterns": len(set(learned)),
        "correlation_of_sparsity_and_distortion": float(np.corrcoef(closed, distortion)[0, 1]) if varied else None,
    }
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(result, indent=2) + "\n")
    show(result)


def without_second_stage(runtime: TorchRuntime) -> TorchRuntime:
    """The same with the base network's weights on partial frames too: nothing is fine-tuned."""
    network = copy.deepcopy(runtime.original)
    if network.second is not None:
        network.second.load_state_dict(network.network.state_dict())
    return TorchRuntime(network, mean=runtime.normalization.mean, std=runtime.normalization.std)


def find_cases(runtime: Runtime, data: str, split: str, size: tuple[int, int]) -> tuple[list[Case], float]:
    """Pairs of frames of a split, and the mIoU of the second ones computed whole."""
    cases, matrix = [], ConfusionMatrix(open_dataset(data).num_classes)
    for video in open_dataset(data).videos(split):
        for index in track(range(1, len(video), 2), video.name, console=Console(stderr=True)):
            truth = video.truth(index, size)
            if truth is None:
                continue
            before, now = (runtime.prepare(np.ascontiguousarray(video.image(at, size))) for at in (index - 1, index))
            masks = runtime.compare(runtime.encode(before), runtime.encode(now), None)
            cases.append(Case(now, masks, runtime.full(before).features, truth))
            matrix.add(runtime.labels(runtime.full(now).logits, size), truth)
    return cases, round(100 * matrix.mean_iou(), 3)


def score(
    runtime: Runtime, cases: Sequence[Case], keep: Callable[[int], Keep], scale: float, size: tuple[int, int]
) -> dict[str, float]:
    """mIoU of the partial frames, and their MACs relative to whole ones, in percent."""
    matrix, macs = ConfusionMatrix(runtime.num_classes or 0), []
    for index, case in enumerate(cases):
        masks = case.masks._replace(keep=keep(index))
        output = runtime.partial(case.image, masks, case.previous, None, scale)
        matrix.add(runtime.labels(output.logits, size), case.truth)
        costs = (
            runtime.cost(size, Level.PARTIAL, masks.keep, scale, masked=True),
            runtime.cost(size, Level.KEY, (True,) * len(masks.keep), 1.0, masked=False),
        )
        if costs[0] and costs[1]:
            macs.append(100 * costs[0].macs / costs[1].macs)
    return {"miou": round(100 * matrix.mean_iou(), 3), "macs": round(float(np.mean(macs)), 1)}


def show(result: dict[str, Any]) -> None:
    table = Table("blocks", title=f"{result['model']}, {result['frames']} partial frames after a whole one")
    for head in ("mIoU", "of whole", "MACs"):
        table.add_column(head, justify="right")
    for name, row in result["miou"].items():
        change = 100 * (row["miou"] / result["whole"] - 1)
        table.add_row(name, f"{row['miou']:.2f}", f"{change:+.2f} %", f"{row['macs']:.0f} %")
    console = Console()
    console.print(table)
    console.print(f"open: {result['share_open']}; {result['patterns']} patterns in {result['frames']} frames")
    console.print(f"correlation of sparsity and distortion: {result['correlation_of_sparsity_and_distortion']}")


def _without(block: int, blocks: int) -> Callable[[int], Keep]:
    return lambda index: tuple(each != block for each in range(blocks))


def _always(pattern: Keep) -> Callable[[int], Keep]:
    return lambda index: pattern


if __name__ == "__main__":
    main()
