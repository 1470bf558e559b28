"""What partial frames lose and cost: the scale they are computed at, how many blocks run, and motion.

Every second frame is partial (R = 2), or the paper's scheduler chooses.

    python benchmarks/partial_frames.py MODEL CAMVID [--scale 0.7] [--thresholds 0.47 0.45]
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

from rich.console import Console
from rich.table import Table

import stmg
from stmg.data.catalogue import open_dataset
from stmg.evaluation.inputs import EVERY_FRAME
from stmg.evaluation.measuring.streams import load_into_memory, stream_figures
from stmg.segmenter import VideoSegmenter
from stmg.streaming.masks import Masking
from stmg.streaming.schedulers import FixedPeriod, PaperScheduler

SIZE = (360, 480)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("data")
    parser.add_argument("--scale", type=float, help="of partial frames; the model's own if not given")
    parser.add_argument("--thresholds", type=float, nargs="*", default=(0.47, 0.45), help="of the gates, to try too")
    arguments = parser.parse_args()
    segmenter = stmg.load(arguments.model, corrector="none")
    video = load_into_memory(open_dataset(arguments.data), "val", SIZE, None)
    base = stream_figures(segmenter.another(**EVERY_FRAME), video, "val", SIZE)
    table = Table("partial frames", title=f"{arguments.model}, whole {base.miou:.2f}")
    for head in ("blocks kept", "mIoU", "drop", "MACs"):
        table.add_column(head, justify="right")
    scale = arguments.scale or segmenter.settings.partial_scale
    for name, stream in rows(segmenter, scale, arguments.thresholds):
        found = stream_figures(stream, video, "val", SIZE)
        drop = 100 * (found.miou / base.miou - 1)
        share = 100 * found.cost.macs / base.cost.macs if found.cost and base.cost else float("nan")
        table.add_row(name, f"{found.kept_share:.0f} %", f"{found.miou:.2f}", f"{drop:+.2f} %", f"{share:.1f} %")
    Console().print(table)


def rows(segmenter: VideoSegmenter, scale: float, thresholds: list[float]) -> Iterator[tuple[str, VideoSegmenter]]:
    """What to try, one after the other: a changed threshold holds until the next row."""
    still: dict[str, Any] = {"scheduler": FixedPeriod(2), "motion": "none", "max_change": None, "partial_scale": scale}
    yield "at full scale, pruning alone", segmenter.another(**{**still, "partial_scale": 1.0})
    yield f"at {scale} of the scale", segmenter.another(**still)
    yield "  mask as generated, not multiplied", segmenter.another(**still, masking=Masking(gain=1.0))
    yield "  all blocks", segmenter.another(**still, masking=Masking(pruning="none"))
    yield "  gamma2 = 0.95", segmenter.another(**{**still, "scheduler": PaperScheduler()})
    yield "  warped along the motion", segmenter.another(**{**still, "motion": "dis-fine"})
    yield "  the same, two of three", segmenter.another(**{**still, "motion": "dis-fine", "scheduler": FixedPeriod(3)})
    runtime: Any = segmenter.runtime
    threshold = runtime.network.mask_generator.pruning.threshold
    learned = float(threshold)
    for value in thresholds:
        threshold.fill_(value)
        yield f"  threshold of the gates {value} instead of {learned:.2f}", segmenter.another(**still)
    threshold.fill_(learned)


if __name__ == "__main__":
    main()
