"""Losses: plain functions of logits, labels and masks.

Each is a weighted sum over pixels with its weight, so that several processes can divide by their common weight. Their
averaged gradients then equal those of one process on the joined batch.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F

from stmg.errors import SettingsError
from stmg.gating.aggregation import warp_tensor
from stmg.video.labels import IGNORE


class WeightedSum(NamedTuple):
    """A loss before division by its weight."""

    total: Tensor
    """Weighted sum over the pixels of this process."""
    weight: Tensor
    """Sum of the weights of these pixels."""

    def mean(self) -> Tensor:
        """Mean over the pixels of all processes, times their number, because their gradients are averaged."""
        weight = self.weight.detach().clone()
        if dist.is_available() and dist.is_initialized():
            dist.all_reduce(weight)
            weight = weight / dist.get_world_size()
        return self.total / weight.clamp(min=1e-6)


def upsample(logits: Tensor, size: tuple[int, ...]) -> Tensor:
    """Upsample logits (N, C, h, w) to the labels' size (H, W)."""
    return F.interpolate(logits, size=size, mode="bilinear", align_corners=False)


def segmentation_loss(
    logits: Tensor,
    labels: Tensor,
    class_weights: Tensor | None = None,
    hard_pixels: float = 1.0,
    hard_share: float = 0.1,
) -> WeightedSum:
    """Cross-entropy of full-size logits (N, C, H, W) against labels (N, H, W). Ignored pixels do not count.

    If `hard_pixels` is below 1, only pixels whose true class has at most that probability count, and at least the share
    `hard_share` of all.
    """
    known = labels != IGNORE
    each = F.cross_entropy(logits, labels.long(), ignore_index=IGNORE, reduction="none")
    weight = known.to(each.dtype)
    if hard_pixels < 1:
        weight = weight * _hard_pixels(each.detach(), known, hard_pixels, hard_share)
    if class_weights is not None:
        weight = weight * class_weights[labels.long().clamp(max=len(class_weights) - 1)]
    return WeightedSum((each * weight).sum(), weight.sum())


def distillation_loss(logits: Tensor, teacher: Tensor, temperature: float = 1.0) -> WeightedSum:
    """Cross-entropy of logits (N, C, H, W) against a teacher's probabilities, in nats per pixel."""
    target = (teacher / temperature).softmax(1)
    each = -(target * (logits / temperature).log_softmax(1)).sum(1) * temperature**2
    return WeightedSum(each.sum(), torch.as_tensor(float(each.numel()), device=each.device))


class DistortionMap(NamedTuple):
    """Target of a spatial mask."""

    changed: Tensor
    """(N, 1, h, w) in [0, 1]: the share of a cell's pixels whose label changed."""
    known: Tensor
    """(N, 1, h, w): True if any pixel of the cell has a label in both frames."""


def distortion_map(before: Tensor, now: Tensor, flow: Tensor | None, cells: tuple[int, int]) -> DistortionMap:
    """Compare labels (N, H, W) of two frames. `flow` (N, h, w, 2), if given, warps the older ones."""
    warped = warp_tensor(before[:, None].float(), flow, nearest=True)[:, 0].to(now.dtype)
    known = (warped != IGNORE) & (now != IGNORE)
    differ = (warped != now) & known
    changed, known_share = (F.adaptive_avg_pool2d(part[:, None].float(), cells) for part in (differ, known))
    return DistortionMap(changed / known_share.clamp(min=1e-6), known_share > 0)


def reconstruction_loss(
    mask: Tensor, distortion: Tensor, known: Tensor, miss_weight: float = 1.0, smoothing: float = 1.0
) -> WeightedSum:
    """Binary cross-entropy and dice of a spatial mask against the distortion map, all (N, 1, h, w); κ = `smoothing`.

    A missed change weighs `miss_weight` times as much in the entropy as a false alarm.
    """
    # Computed by hand, because autocast refuses the built-in function.
    mask, known = mask.float().clamp(1e-6, 1 - 1e-6), known.float()
    entropy = -(miss_weight * distortion * mask.log() + (1 - distortion) * (1 - mask).log()) * known
    num_known = known.sum((1, 2, 3)).clamp(min=1)
    overlap = (mask * distortion * known).sum((1, 2, 3))
    sizes = ((mask**2 + distortion**2) * known).sum((1, 2, 3))
    dice = 1 - (2 * overlap + smoothing) / (sizes + smoothing)
    each = entropy.sum((1, 2, 3)) / num_known + dice
    return WeightedSum(each.sum(), torch.as_tensor(float(len(each)), device=each.device))


def keep_ratio_loss(keep_probability: Tensor, target: float) -> Tensor:
    """Squared distance of the mean of probabilities (N, ...), over all processes, from a target."""
    own = keep_probability.mean()
    mean = own.detach().clone()
    if dist.is_available() and dist.is_initialized():
        dist.all_reduce(mean)
        mean = mean / dist.get_world_size()
    gap = mean - target
    return gap**2 + 2 * gap * (own - own.detach())  # its gradient, averaged over processes, is that of gap**2


def compute_class_weights(shares: Tensor, method: str) -> Tensor | None:
    """Class weights (C,) from the classes' shares of the pixels. An average pixel weighs 1. None for `none`."""
    if method == "none":
        return None
    shares = shares.clamp(min=1e-4)
    weights = 1 / torch.log(1.1 + shares) if method == "log" else 1 / (shares + 1e-3).sqrt()
    return weights / (weights * shares).sum()


@torch.no_grad()
def lower_logits(network: nn.Module, offsets: Tensor) -> None:
    """Lower the logits of each class by `offsets` (C,), in the bias of the last layer."""
    layers = [module for module in network.modules() if isinstance(module, nn.Conv2d)]
    last = next((layer for layer in reversed(layers) if layer.out_channels == len(offsets)), None)
    if last is None or last.bias is None:
        raise SettingsError(
            "class weights are undone in the bias of the last layer, and this network's has none: "
            "loss.undo_class_weights=0"
        )
    last.bias.sub_(offsets)


def _hard_pixels(each: Tensor, known: Tensor, probability: float, share: float) -> Tensor:
    """Mask of the hard pixels. Each image is treated alone, so that the result does not depend on its batch."""
    mined = torch.zeros_like(each)
    for image, (losses, labeled) in enumerate(zip(each, known, strict=True)):
        candidates = losses[labeled]
        if candidates.numel():
            least = max(1, round(share * candidates.numel()))
            bound = candidates.kthvalue(candidates.numel() - least + 1).values.clamp(max=-math.log(probability))
            mined[image] = (losses >= bound).to(each.dtype)
    return mined
