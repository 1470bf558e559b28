"""Accuracy and cost of partial frames, in three views.

python -m benchmarks.partial_frames stream MODEL CAMVID   # every second frame of a drive: scale, blocks, motion
python -m benchmarks.partial_frames gain MODEL CAMVID     # by the gain of the spatial mask, on stills set in motion
python -m benchmarks.partial_frames blocks MODEL CAMVID   # by which blocks run: learned, at random, all, none

`gain` and `blocks` look at pairs of frames, the first computed whole and the second partially, without motion.
"""

from __future__ import annotations

import copy
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.progress import track

import stmg
from benchmarks.budgets import clips
from benchmarks.measurement import Numbers, finish, make_parser
from stmg.data.catalogue import open_dataset
from stmg.evaluation.accuracy import ConfusionMatrix
from stmg.evaluation.inputs import load_into_memory
from stmg.evaluation.measure import base_cost, measure_stream
from stmg.evaluation.way import EVERY_FRAME
from stmg.runtimes.torch import TorchRuntime
from stmg.segmenter import VideoSegmenter
from stmg.streaming.masks import Masking, Masks
from stmg.streaming.runtime import Runtime
from stmg.streaming.schedulers import FixedPeriod, Level, PaperScheduler
from stmg.video.labels import Labels

SIZE = (360, 480)
DRIVE = 3.0  # the speed of stills at which as many frames are computed as on a drive
Keep = tuple[bool, ...]
Rows = dict[str, Numbers]


def main() -> None:
    parser = make_parser("partial_frames", __doc__)
    parser.add_argument("view", choices=("stream", "gain", "blocks"))
    parser.add_argument("model")
    parser.add_argument("data")
    parser.add_argument("--scale", type=float, help="of partial frames; the model's own if not given")
    parser.add_argument("--thresholds", type=float, nargs="*", default=(), help="stream: of the gates, to try too")
    parser.add_argument("--gains", type=float, nargs="+", default=(1.0, 1.25, 1.5, 1.75, 2.0), help="gain: to try")
    parser.add_argument("--stills", type=int, default=52, help="gain: how many")
    parser.add_argument("--patterns", type=int, default=3, help="blocks: how many at random")
    arguments = parser.parse_args()
    segmenter = stmg.load(arguments.model, corrector="none", runtime="torch")
    arguments.scale = arguments.scale or segmenter.settings.partial_scale
    views = {"stream": measure_streams, "gain": measure_gains, "blocks": measure_blocks}
    rows, note = views[arguments.view](segmenter, arguments)
    columns = {
        "kept": ("blocks kept", "{:.0f} %"),
        "miou": ("mIoU", "{:.2f}"),
        "change": ("change", "{:+.2f} %"),
        "macs": ("MACs", "{:.1f} %"),
    }
    title = f"{arguments.model}, partial frames at {arguments.scale:g} of the scale, {arguments.view}"
    finish("partial_frames", arguments.out, title, columns, rows, note=note)


def measure_streams(segmenter: VideoSegmenter, arguments: Namespace) -> tuple[Rows, str]:
    """Run whole streams in which every second frame is partial, or the paper's scheduler chooses."""
    video = load_into_memory(open_dataset(arguments.data), "val", SIZE, None)
    base = measure_stream(segmenter.another(**EVERY_FRAME), video, "val", SIZE)
    rows: Rows = {}
    for name, stream in track(list_streams(segmenter, arguments), "streams", console=Console(stderr=True)):
        found = measure_stream(stream, video, "val", SIZE)
        rows[name] = {
            **_accuracy(found.miou, base.miou),
            "kept": found.kept_share,
            "macs": found.macs_share(base.cost),
        }
    return rows, f"whole {base.miou:.2f}"


def list_streams(segmenter: VideoSegmenter, arguments: Namespace) -> Iterator[tuple[str, VideoSegmenter]]:
    """The streams to run, by name. They share a network, so run each before taking the next."""
    scale = arguments.scale
    still: dict[str, Any] = {"scheduler": FixedPeriod(2), "motion": "none", "max_change": None, "partial_scale": scale}
    yield "at full scale, pruning alone", segmenter.another(**{**still, "partial_scale": 1.0})
    yield f"at {scale:g} of the scale", segmenter.another(**still)
    yield "the same, mask as generated (gain 1)", segmenter.another(**still, masking=Masking(gain=1.0))
    yield "the same, all blocks", segmenter.another(**still, masking=Masking(pruning="none"))
    yield "the same, γ₂ = 0.95", segmenter.another(**{**still, "scheduler": PaperScheduler()})
    warped = {**still, "motion": "dis-fine"}
    yield "the same, warped along the motion", segmenter.another(**warped)
    yield "the same, warped, two of three partial", segmenter.another(**{**warped, "scheduler": FixedPeriod(3)})
    runtime: Any = segmenter.runtime
    threshold = runtime.network.mask_generator.pruning.threshold
    learned = float(threshold)
    for value in arguments.thresholds:
        threshold.fill_(value)
        yield f"the same, threshold of the gates {value:g} instead of {learned:.2f}", segmenter.another(**still)
    threshold.fill_(learned)


class Pair(NamedTuple):
    """A frame to compute partially, and the whole frame before it."""

    image: Any
    masks: Masks
    features: Any
    """Features of the frame before."""
    labels: Labels
    """Labels of the frame before, by the whole network."""
    truths: tuple[Labels | None, Labels]


def measure_gains(segmenter: VideoSegmenter, arguments: Namespace) -> tuple[Rows, str]:
    """Pairs of stills of the training split set in motion as fast as a drive; both frames of a pair count."""
    runtime = segmenter.runtime
    frames = clips(arguments.data, arguments.stills, DRIVE, length=2)
    pairs, whole = compute_pairs(runtime, ((images, truths) for images, truths in frames), both=True)
    rows: Rows = {}
    for gain in arguments.gains:
        masking = Masking(gain=gain)
        used = [masking(pair.masks, number) for number, pair in enumerate(pairs)]
        miou, macs = score(runtime, pairs, used, arguments.scale, both=True)
        row = {**_accuracy(miou, whole), "macs": 50 + macs / 2}
        rows[f"gain {gain:g}"] = {**row, "loss": -row["change"]}
    return rows, f"{len(pairs)} pairs, all frames whole {whole:.2f}"


def measure_blocks(segmenter: VideoSegmenter, arguments: Namespace) -> tuple[Rows, str]:
    """Pairs of a drive; the second frames count, with masks as generated and blocks chosen in several ways."""
    runtime = segmenter.runtime
    assert isinstance(runtime, TorchRuntime)
    pairs, whole = compute_pairs(runtime, drive_pairs(arguments.data), both=False)
    blocks, learned = runtime.num_blocks, [pair.masks.keep for pair in pairs]
    rng = np.random.default_rng(0)
    at_random: Callable[[int], Keep] = lambda index: tuple(map(bool, rng.permutation(learned[index])))  # noqa: E731
    choices: dict[str, list[Keep]] = {
        "all blocks": [(True,) * blocks] * len(pairs),
        "no block": [(False,) * blocks] * len(pairs),
        "learned": learned,
        "learned, most frequent pattern": [max(set(learned), key=learned.count)] * len(pairs),
        "random on each frame": [at_random(index) for index in range(len(pairs))],
        **{f"random pattern {number}": [at_random(0)] * len(pairs) for number in range(arguments.patterns)},
        **{f"all but block {out}": [tuple(at != out for at in range(blocks))] * len(pairs) for out in range(blocks)},
    }
    untrained = without_second_stage(runtime)
    runs = [(name, runtime, keep) for name, keep in choices.items()]
    runs += [(f"{name}, not fine-tuned", untrained, choices[name]) for name in ("all blocks", "random on each frame")]
    rows: Rows = {}
    for name, which, keeps in track(runs, "blocks", console=Console(stderr=True)):
        used = [pair.masks._replace(keep=keep) for pair, keep in zip(pairs, keeps, strict=True)]
        miou, macs = score(which, pairs, used, arguments.scale, both=False)
        rows[name] = {**_accuracy(miou, whole), "kept": 100 * float(np.mean(keeps)), "macs": macs}
    shares = ", ".join(f"{share:.2f}" for share in np.mean(learned, axis=0))
    return rows, f"{len(pairs)} partial frames, whole {whole:.2f}; learned: open on this share of them: {shares}"


def drive_pairs(data: str) -> Iterator[tuple[Sequence[Any], tuple[None, Labels]]]:
    """Every second labeled frame of the evaluation split and the one before it."""
    for video in open_dataset(data).videos("val"):
        for index in range(1, len(video), 2):
            truth = video.truth(index, SIZE)
            if truth is not None:
                yield [np.ascontiguousarray(video.image(at, SIZE)) for at in (index - 1, index)], (None, truth)


def compute_pairs(runtime: Runtime, pairs: Iterator[tuple[Any, Any]], *, both: bool) -> tuple[list[Pair], float]:
    """Compute pairs of frames whole. Returns them, and the mIoU of the second frames, or of both."""
    computed, counts = [], ConfusionMatrix(runtime.num_classes or 0)
    for images, truths in track(pairs, "pairs", console=Console(stderr=True)):
        before, now = map(runtime.prepare, images)
        first, second = runtime.full(before), runtime.full(now)
        masks = runtime.compare(runtime.encode(before), runtime.encode(now), None)
        labels = runtime.labels(first.logits, SIZE)
        computed.append(Pair(now, masks, first.features, labels, (truths[0], truths[1])))
        if both:
            counts.add(labels, truths[0])
        counts.add(runtime.labels(second.logits, SIZE), truths[1])
    return computed, 100 * counts.mean_iou()


def score(
    runtime: Runtime, pairs: Sequence[Pair], masks: Sequence[Masks], scale: float, *, both: bool
) -> tuple[float, float]:
    """The mIoU with partial frames, and their MACs in percent of whole ones."""
    counts, macs = ConfusionMatrix(runtime.num_classes or 0), []
    whole = base_cost(runtime, SIZE)
    for pair, used in zip(pairs, masks, strict=True):
        output = runtime.partial(pair.image, used, pair.features, None, scale)
        if both and pair.truths[0] is not None:
            counts.add(pair.labels, pair.truths[0])
        counts.add(runtime.labels(output.logits, SIZE), pair.truths[1])
        partial = runtime.cost(SIZE, Level.PARTIAL, used.keep, scale, masked=True)
        macs.append(100 * partial.macs / whole.macs if partial and whole else float("nan"))
    return 100 * counts.mean_iou(), float(np.mean(macs))


def without_second_stage(runtime: TorchRuntime) -> TorchRuntime:
    """A runtime that uses the base network's weights on partial frames too: nothing is fine-tuned."""
    network = copy.deepcopy(runtime.original)
    if network.second is not None:
        network.second.load_state_dict(network.network.state_dict())
    return TorchRuntime(network, mean=runtime.normalization.mean, std=runtime.normalization.std)


def _accuracy(miou: float, base: float) -> dict[str, float]:
    return {"miou": miou, "change": 100 * (miou / base - 1)}


if __name__ == "__main__":
    main()
