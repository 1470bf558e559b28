"""Input range: whether frames fit what the first layer of a network saw in training."""

from __future__ import annotations

import copy

import numpy as np
import torch
from torch import Tensor, nn

from stmg.gating.aggregation import NormalizeImage
from stmg.gating.measure import record_calls
from stmg.video.frames import Image, resize_image
from stmg.video.normalization import NORMALIZATIONS, Normalization

NUM_LAYERS = 12
"""Number of layers, in module order, among which the first two that run are found."""
MAX_SIDE = 256
"""Longest side of the frame to measure: statistics need no more."""
MIN_CONTRAST = 20
"""Standard deviation of the values of a frame; a black or foggy one tells nothing."""
MIN_GAIN = 1.0
"""Nats per channel by which another normalization must fit better. For the shipped networks on CamVid, DAVIS and four
other videos the right one is at most 0.66 worse than the best."""


class FirstLayer:
    """The first convolution, and the statistics that the batch-norm behind it took of its outputs in training."""

    def __init__(self, convolution: nn.Conv2d, norm: nn.modules.batchnorm._BatchNorm) -> None:
        assert norm.running_mean is not None
        assert norm.running_var is not None
        self.convolution = copy.deepcopy(convolution)
        self.mean, self.var = norm.running_mean.clone(), norm.running_var.clone() + norm.eps

    @torch.no_grad()
    def measure_misfit(self, image: Image, normalization: Normalization) -> float:
        """Measure how far its outputs on an image are from those in training: the mean divergence over channels."""
        weight = self.convolution.weight
        pixels = torch.from_numpy(np.require(image, requirements="W"))[None].to(weight.device)
        normalized = NormalizeImage(normalization.mean, normalization.std).to(weight.device)(pixels)
        output = self.convolution(normalized.to(weight.dtype)).float()
        var, mean = torch.var_mean(output, dim=(0, 2, 3))
        ratio = (var + 1e-5) / self.var
        divergence = (ratio + (mean - self.mean) ** 2 / self.var - 1 - ratio.log()) / 2
        return float(divergence.clamp(max=50).mean())

    def find_better(self, image: Image, normalization: Normalization) -> str | None:
        """Find a normalization that fits an image far better than the one in use, by name; None if none does."""
        if image.std() < MIN_CONTRAST:
            return None
        shrink = max(1.0, max(image.shape[:2]) / MAX_SIDE)
        small = resize_image(image, (round(image.shape[0] / shrink), round(image.shape[1] / shrink)))
        misfit = self.measure_misfit(small, normalization)
        misfits = {name: self.measure_misfit(small, other) for name, other in NORMALIZATIONS.items()}
        best = min(misfits, key=lambda name: misfits[name])
        return best if misfits[best] + MIN_GAIN < misfit and 2 * misfits[best] < misfit else None


def find_first_layer(network: nn.Module, example: Tensor) -> FirstLayer | None:
    """Find the first layer of a trained network, if it is a convolution followed by a batch norm."""
    kinds = (nn.Conv2d, nn.modules.batchnorm._BatchNorm)
    names = [name for name, module in network.named_modules() if isinstance(module, kinds)][:NUM_LAYERS]
    calls = sorted(record_calls(network, example, names).items(), key=lambda item: item[1].order)
    if len(calls) < 2:
        return None
    (first, one), (second, two) = calls[:2]
    convolution, norm = network.get_submodule(first), network.get_submodule(second)
    if not isinstance(convolution, nn.Conv2d) or not isinstance(norm, kinds[1]) or two.args[0] is not one.output:
        return None
    if convolution.in_channels != 3 or one.args[0].shape != example.shape:
        return None
    mean, var = norm.running_mean, norm.running_var
    if mean is None or var is None or not bool(mean.any()) or bool((var == 1).all()):  # not trained
        return None
    return FirstLayer(convolution, norm)
