"""The mask generator: compares two frames and says which blocks to run and where to reuse features."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from stmg.gating.pruning import BlockPruning, distortion_bias, hard_keep, relaxed_keep

CHANNELS = 32  # of the encoder's features


class SoftMasks(NamedTuple):
    """The masks of a batch."""

    keep: Tensor
    """(N, K) in [0, 1]: gates, sampled in training and 0 or 1 at inference."""
    changed: Tensor
    """(N, 1, h, w) in [0, 1]: the spatial mask m_sp."""
    probability: Tensor
    """(N, K): φ, the probability that a block is pruned."""


class MaskGenerator(nn.Module):
    """An encoder shared by both frames, a spatial mask from the angle between its features, and block pruning."""

    stride = 8

    def __init__(self, num_blocks: int) -> None:
        super().__init__()
        self.num_blocks = num_blocks
        self.distortion_aware = True
        """Whether block pruning has the distortion bias (the paper's dbb-DBB)."""
        # Half the resolution is enough to tell change at 1/8, and the first layer is where a light encoder's time goes.
        self.encoder = nn.Sequential(
            nn.AvgPool2d(2, ceil_mode=True),
            *_downsampling(3, CHANNELS // 2),
            *_downsampling(CHANNELS // 2, CHANNELS),
            nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1),
        )
        self.pruning = BlockPruning(CHANNELS, num_blocks) if num_blocks else None

    def encode(self, image: Tensor) -> Tensor:
        """Enc_f: features (N, CHANNELS, H/8, W/8) of a normalized image (N, 3, H, W)."""
        features: Tensor = self.encoder(image)
        return features

    def forward(self, before: Tensor, now: Tensor) -> SoftMasks:
        """Masks for inference from the encoder features of two frames: deterministic."""
        return self._masks(before, now, sampled=False)

    def sample(self, before: Tensor, now: Tensor) -> SoftMasks:
        """Masks for training: the shift of the batch-norm and the gates are sampled."""
        return self._masks(before, now, sampled=True)

    def steer(self, prior_mean: float, distortion_aware: bool) -> None:
        """Set the share of pruned blocks that the prior wants, and start from it."""
        self.distortion_aware = distortion_aware
        if self.pruning is not None:
            self.pruning.probability.prior_mean = prior_mean
            nn.init.constant_(self.pruning.probability.shift, prior_mean)

    def divergence(self) -> Tensor:
        """The sparsity loss; zero without prunable blocks."""
        return torch.zeros(()) if self.pruning is None else self.pruning.probability.divergence()

    def _masks(self, before: Tensor, now: Tensor, sampled: bool) -> SoftMasks:
        changed = spatial_mask(before, now)
        if self.pruning is None:
            empty = changed.new_zeros(len(changed), 0)
            return SoftMasks(empty, changed, empty)
        bias = distortion_bias(changed) if self.distortion_aware else None
        probability = self.pruning(before, now, bias, sampled)
        keep = (
            relaxed_keep(probability)
            if sampled
            else hard_keep(probability, self.pruning.threshold).to(probability.dtype)
        )
        return SoftMasks(keep, changed, probability)


def spatial_mask(before: Tensor, now: Tensor) -> Tensor:
    """m_sp = 0.5 - 0.5 cos(t, e) at each cell, (N, 1, h, w): 0 = the same direction, 1 = opposite."""
    return (0.5 - 0.5 * F.cosine_similarity(before, now, dim=1).clamp(-1, 1))[:, None]


def _downsampling(inputs: int, outputs: int) -> tuple[nn.Module, ...]:
    convolution = nn.Conv2d(inputs, outputs, 3, stride=2, padding=1, bias=False)
    return convolution, nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)
