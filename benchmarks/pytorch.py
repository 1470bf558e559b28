"""What makes PyTorch faster on this machine, step by step: inference mode, folding, channels last, torch.compile.

The same network on the same frame, in turns. Weights are random: time does not depend on them. torch.compile needs a
C++ compiler.

    python benchmarks/pytorch.py [--network ddrnet23-slim] [--size 360x480] [--repeats 20] [--threads 2]
"""

from __future__ import annotations

import argparse
import copy
from collections.abc import Callable
from statistics import median, quantiles
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch import nn

from stmg.gating.folding import fold_batch_norm
from stmg.networks import build
from stmg.runtimes.machine import processor
from turns import in_turns


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", default="ddrnet23-slim")
    parser.add_argument("--size", default="360x480")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    height, width = map(int, arguments.size.split("x"))
    torch.manual_seed(0)
    network, image = build(arguments.network, 11).eval(), torch.rand(1, 3, height, width)
    table = Table(
        "each with those above it", "ms", "of the first", "middle half", title=f"{arguments.network}, {arguments.size}"
    )
    spent = in_turns(_ways(network, image), arguments.repeats)
    first = spent["as it is, no gradients"]
    for how, times in spent.items():
        ratios = [mine / other for mine, other in zip(times, first, strict=True)]
        low, middle, high = quantiles(ratios, n=4)
        table.add_row(how, f"{median(times):.1f}", f"{middle:.2f}", f"{low:.2f} to {high:.2f}")
    console = Console(width=110)
    console.print(table)
    console.print(f"{processor()}, {arguments.threads} threads, torch {torch.__version__}")


def _ways(network: nn.Module, image: torch.Tensor) -> dict[str, Callable[[], Any]]:
    folded = copy.deepcopy(network)
    fold_batch_norm(folded, image)
    last, last_image = copy.deepcopy(folded), image.contiguous(memory_format=torch.channels_last)
    last.to(memory_format=torch.channels_last)
    compiled = copy.deepcopy(last)
    compiled.compile()
    return {
        "as it is, no gradients": torch.no_grad()(lambda: network(image)),
        "inference mode": torch.inference_mode()(lambda: network(image)),
        "batch-norms folded": torch.inference_mode()(lambda: folded(image)),
        "channels last": torch.inference_mode()(lambda: last(last_image)),
        "torch.compile": torch.inference_mode()(lambda: compiled(last_image)),
    }


if __name__ == "__main__":
    main()
