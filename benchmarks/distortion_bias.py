"""What the distortion bias of dbb-DBB does: a trained network with it, and without it as many blocks kept.

Every second frame is partial, nothing is warped. Prints how the share of pruned blocks correlates with the distortion
(the paper's figure 8), and the mIoU.

    python benchmarks/distortion_bias.py ddrnet39-camvid CAMVID
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
import torch

import stmg
from stmg.data.catalogue import open_dataset
from stmg.evaluation.streams import load_into_memory, stream_figures
from stmg.streaming.schedulers import FixedPeriod

SIZE = (360, 480)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("data")
    arguments = parser.parse_args()
    segmenter = stmg.load(arguments.model, corrector="none")
    runtime: Any = segmenter.runtime
    generator = runtime.network.mask_generator
    dataset = load_into_memory(open_dataset(arguments.data), "val", SIZE, None)
    (video,) = dataset.videos("val")
    images = (np.ascontiguousarray(video.image(index, SIZE)) for index in range(len(video)))
    encoded = [runtime.encode(runtime.prepare(image)) for image in images]
    kept = 0.0
    for biased in (True, False):
        generator.distortion_aware = biased
        with torch.inference_mode():
            pairs = zip(encoded[::2], encoded[1::2], strict=False)
            masks = [generator(before, now) for before, now in pairs]
        probability = np.array([each.probability[0].numpy() for each in masks])
        distortion = np.array([float(each.changed.mean()) for each in masks])
        threshold = generator.pruning.threshold
        if biased:
            kept = float((probability < float(threshold)).mean())
        else:
            threshold.fill_(float(np.quantile(probability, kept)))
        pruned = 1 - (probability < float(threshold)).mean(1)
        settings: dict[str, Any] = {"motion": "none", "max_change": None, "scheduler": FixedPeriod(2)}
        found = stream_figures(segmenter.another(**settings), dataset, "val", SIZE)
        print(
            f"{'with' if biased else 'without'} the bias: correlation of pruned share and distortion "
            f"{np.corrcoef(pruned, distortion)[0, 1]:+.2f}, of the mean probability "
            f"{np.corrcoef(probability.mean(1), distortion)[0, 1]:+.2f}; {found.kept_share:.0f} % kept, "
            f"mIoU {found.mean_iou:.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
