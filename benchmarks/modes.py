"""Accuracy and cost of a trained checkpoint as a stream: the base network, the paper's mode, ours, and the rival.

python benchmarks/modes.py CHECKPOINT DATA [--split val] [--ablations]
"""

from __future__ import annotations

import argparse
from dataclasses import replace

from rich.console import Console
from rich.progress import track
from rich.table import Table

from stmg.checkpoint import load, load_network
from stmg.data.catalogue import open_dataset
from stmg.data.dataset import Video
from stmg.evaluation.rivals import carried_logits
from stmg.evaluation.stream import StreamFigures, stream_figures
from stmg.frames import Image
from stmg.masking import Masking
from stmg.runtimes.torch import TorchRuntime
from stmg.scheduler import AlwaysKey, FixedPeriod, Level, PaperScheduler, PerFramePruning
from stmg.state import Labels

SEEDS = range(3)  # of what is drawn


class Decoded:
    """A video in memory: every mode reads it again."""

    def __init__(self, video: Video, size: tuple[int, int]) -> None:
        self.name, self.rate, self.labelled = video.name, video.rate, video.labelled
        places = track(range(len(video)), f"reading {video.name}")
        self.frames = [(video.image(place, size), video.truth(place, size)) for place in places]

    def __len__(self) -> int:
        return len(self.frames)

    def image(self, place: int, size: tuple[int, int] | None = None) -> Image:
        return self.frames[place][0]

    def truth(self, place: int, size: tuple[int, int] | None = None) -> Labels | None:
        return self.frames[place][1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint")
    parser.add_argument("data")
    parser.add_argument("--split", default="val")
    parser.add_argument("--ablations", action="store_true")
    parser.add_argument("--scale", type=float, help="scale of partial frames, if not the checkpoint's")
    arguments = parser.parse_args()
    network, card = load_network(arguments.checkpoint)
    dataset = open_dataset(arguments.data)
    videos = tuple(Decoded(video, card.size) for video in dataset.videos(arguments.split))
    dataset = replace(dataset, splits={arguments.split: videos})
    runtime = TorchRuntime(network, mean=card.mean, std=card.std)
    console = Console(width=130)
    table = Table("", "mIoU", "relative", "MACs", "key", "partial", "carry", "blocks kept", title=arguments.checkpoint)
    base: StreamFigures | None = None

    def run(name: str, **settings: object) -> None:
        nonlocal base
        if arguments.scale is not None:
            settings["partial_scale"] = arguments.scale
        segmenter = load(arguments.checkpoint, **settings)
        figures = stream_figures(segmenter, dataset, arguments.split, card.size)
        base = base or figures
        add(name, figures)

    def add(name: str, figures: StreamFigures) -> None:
        assert base is not None
        table.add_row(
            name,
            f"{figures.mean_iou:.2f}",
            f"{figures.mean_iou / base.mean_iou - 1:+.2%}",
            f"{figures.macs_share:.1f} %",
            *[f"{figures.share(level):.0f} %" for level in Level],
            f"{figures.kept_share:.0f} %" if figures.kept else "-",
        )
        console.print(f"{name}: {figures.mean_iou:.2f} at {figures.macs_share:.1f} % of the MACs", highlight=False)

    run("base on every frame", scheduler=AlwaysKey())
    run("ours: as the checkpoint says")
    for period in (3, 4, 5):
        run(f"ours: carried, period {period}", scheduler=FixedPeriod(period, Level.CARRY))
    for period in (2, 3, 4, 5, 10):
        figures = carried_logits(runtime, dataset, arguments.split, card.size, period)
        add(f"rival: logits carried, period {period}", figures)
    if network.mask_generator is not None:
        run("the paper's mode", scheduler=PaperScheduler(), motion="none")
        if arguments.ablations:
            _ablations(run)
    console.print(table)


def _ablations(run: object) -> None:
    assert callable(run)
    fixed = FixedPeriod(4)
    for motion in ("dis", "none"):
        run(f"{motion}, period 4, partial: learned masks", scheduler=fixed, motion=motion)
        run(f"{motion}, uniform at the mean", scheduler=fixed, motion=motion, masking=Masking(spatial="uniform"))
        run(f"{motion}, uniform at 0.5", scheduler=fixed, motion=motion, masking=Masking(spatial=0.5))
        for seed in SEEDS:
            spatial, pruning = Masking(spatial="random", seed=seed), Masking(pruning="random", seed=seed)
            run(f"{motion}, random mask, seed {seed}", scheduler=fixed, motion=motion, masking=spatial)
            run(f"{motion}, random pruning, seed {seed}", scheduler=fixed, motion=motion, masking=pruning)
        run(f"{motion}, pruning, nothing reused", scheduler=fixed, motion=motion, masking=Masking(spatial="fresh"))
        run(f"{motion}, nothing pruned", scheduler=fixed, motion=motion, masking=Masking(pruning="none"))
    run("every frame pruned, nothing reused", scheduler=PerFramePruning(), motion="none")


if __name__ == "__main__":
    main()
