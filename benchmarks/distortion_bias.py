"""Effect of the distortion bias of dbb-DBB: correlation of pruning and distortion (the paper's figure 8), and mIoU.

Every second frame is partial, nothing is warped, masks are as generated. A network that was trained with the bias is
also run without it, its threshold set so that as many blocks are kept.

    python -m benchmarks.distortion_bias CAMVID ddrnet39-camvid [runs/NAME/last ...]
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import stmg
from benchmarks.measurement import finish, make_parser
from stmg.data.catalogue import open_dataset
from stmg.data.dataset import Dataset
from stmg.evaluation.inputs import load_into_memory
from stmg.evaluation.measure import base_cost, measure_stream
from stmg.streaming.masks import Masking
from stmg.streaming.schedulers import FixedPeriod

SIZE = (360, 480)


def main() -> None:
    parser = make_parser("distortion_bias", __doc__)
    parser.add_argument("data")
    parser.add_argument("models", nargs="+", metavar="MODEL")
    parser.add_argument("--scale", type=float, default=0.8, help="of partial frames")
    arguments = parser.parse_args()
    dataset = load_into_memory(open_dataset(arguments.data), "val", SIZE, None)
    rows, points = {}, {}
    for model in arguments.models:
        name = Path(model).parent.name or model  # runs/NAME/last
        settings: dict[str, Any] = {
            "motion": "none",
            "scheduler": FixedPeriod(2),
            "partial_scale": arguments.scale,
            "masking": Masking(gain=1.0),
        }
        segmenter = stmg.load(model, corrector="none", **settings)
        runtime: Any = segmenter.runtime
        generator = runtime.network.mask_generator
        threshold = generator.pruning.threshold
        probability, distortion = compare_frames(segmenter, dataset)
        is_biased = generator.distortion_aware
        row = f"{name}, {'with' if is_biased else 'without'} the bias"
        rows[row], points[row] = measure(segmenter, dataset, probability, distortion)
        if is_biased:
            kept = float((probability < float(threshold)).mean())
            generator.distortion_aware = False
            probability, distortion = compare_frames(segmenter, dataset)
            threshold.fill_(float(np.quantile(probability, kept)))
            row = f"{name}, its bias off"
            rows[row], points[row] = measure(segmenter, dataset, probability, distortion)
    finish(
        "distortion_bias",
        arguments.out,
        f"How pruning goes with the distortion, every second frame partial at {arguments.scale:g} of the scale",
        {
            "correlation": ("share pruned against distortion", "{:+.2f}"),
            "correlation_of_probability": ("probability against distortion", "{:+.2f}"),
            "kept": ("blocks kept", "{:.0f} %"),
            "miou": ("mIoU", "{:.2f}"),
            "macs": ("MACs", "{:.1f} %"),
        },
        rows,
        data={"points": points},
    )


def compare_frames(segmenter: stmg.VideoSegmenter, dataset: Dataset) -> tuple[NDArray[Any], NDArray[Any]]:
    """Compare every second frame with the one before it.

    Returns the probability (N, blocks) that a block is pruned, and the mean distortion (N,).
    """
    runtime: Any = segmenter.runtime
    (video,) = dataset.videos("val")
    images = (np.ascontiguousarray(video.image(index, SIZE)) for index in range(len(video)))
    encoded = [runtime.encode(runtime.prepare(image)) for image in images]
    with torch.inference_mode():
        pairs = zip(encoded[::2], encoded[1::2], strict=False)
        masks = [runtime.network.mask_generator(before, now) for before, now in pairs]
    probability = np.array([each.probability[0].numpy() for each in masks])
    return probability, np.array([float(each.changed.mean()) for each in masks])


def measure(
    segmenter: stmg.VideoSegmenter, dataset: Dataset, probability: NDArray[Any], distortion: NDArray[Any]
) -> tuple[dict[str, float], list[list[float]]]:
    """A row, and the points (distortion, share pruned) of its frames."""
    runtime: Any = segmenter.runtime
    pruned = (probability >= float(runtime.network.mask_generator.pruning.threshold)).mean(1)
    found = measure_stream(segmenter, dataset, "val", SIZE)
    points = [[round(float(x), 4), round(float(y), 4)] for x, y in zip(distortion, pruned, strict=True)]
    row = {
        "correlation": float(np.corrcoef(pruned, distortion)[0, 1]),
        "correlation_of_probability": float(np.corrcoef(probability.mean(1), distortion)[0, 1]),
        "kept": found.kept_share,
        "miou": found.miou,
        "macs": found.macs_share(base_cost(runtime, SIZE)),
    }
    return row, points


if __name__ == "__main__":
    main()
