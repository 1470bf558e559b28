"""Where the gain of the spatial mask comes from: what each loses on pairs of frames, the second of them partial.

Pairs are stills of the training split set in motion as fast as a drive; nothing is warped.

    python -m benchmarks.mask_gain MODEL CAMVID [--gains 1 1.5 2] [--scales 0.7 0.6875]
"""

from __future__ import annotations

import argparse
from typing import Any, NamedTuple

import stmg
from benchmarks.budgets import CLASSES, SIZE, clips
from stmg.evaluation.measuring.accuracy import ConfusionMatrix
from stmg.streaming.masks import Masking, Masks, partial_size
from stmg.streaming.schedulers import Level
from stmg.video.labels import Labels

DRIVE = 3.0  # the speed of stills at which as many frames are computed as on a drive


class Pair(NamedTuple):
    """A whole frame and the partial one after it."""

    features: Any
    image: Any
    masks: Masks
    labels: Labels
    """Of the whole frame, as the network has them."""
    truths: tuple[Labels, Labels]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("data")
    parser.add_argument("--gains", type=float, nargs="+", default=(1.0, 1.25, 1.5, 1.75, 2.0))
    parser.add_argument("--scales", type=float, nargs="+", help="of partial frames; the model's own if not given")
    parser.add_argument("--stills", type=int, default=52)
    arguments = parser.parse_args()
    segmenter = stmg.load(arguments.model, corrector="none", runtime="torch")
    runtime, whole, pairs = segmenter.runtime, ConfusionMatrix(CLASSES), []
    for frames, truths in clips(arguments.data, arguments.stills, DRIVE, length=2):
        before, now = map(runtime.prepare, frames)
        first, second = runtime.full(before), runtime.full(now)
        masks = runtime.compare(runtime.encode(before), runtime.encode(now), None)
        pairs.append(Pair(first.features, now, masks, runtime.labels(first.logits, SIZE), (truths[0], truths[1])))
        for output, truth in zip((first, second), truths, strict=True):
            whole.add(runtime.labels(output.logits, SIZE), truth)
    print(f"{arguments.model}: {len(pairs)} pairs, all frames whole {100 * whole.mean_iou():.2f}")
    cost = runtime.cost(SIZE, Level.KEY, (True,) * runtime.num_blocks, 1.0, masked=True)
    for scale in arguments.scales or [segmenter.settings.partial_scale]:
        for gain in arguments.gains:
            counts, macs = ConfusionMatrix(CLASSES), 0.0
            for number, pair in enumerate(pairs):
                used = Masking(gain=gain)(pair.masks, number)
                output = runtime.partial(pair.image, used, pair.features, None, scale)
                counts.add(pair.labels, pair.truths[0])
                counts.add(runtime.labels(output.logits, SIZE), pair.truths[1])
                partial = runtime.cost(SIZE, Level.PARTIAL, used.keep, scale, masked=True)
                macs += partial.macs / cost.macs if partial and cost else 0.0
            change, share = 100 * (counts.mean_iou() / whole.mean_iou() - 1), 50 * (1 + macs / len(pairs))
            height, width = partial_size(SIZE, scale)
            print(f"{height}x{width}, gain {gain:g}: {change:+.2f} % at {share:.1f} % of the MACs", flush=True)


if __name__ == "__main__":
    main()
