"""The mask generator: compares two frames, and decides which blocks to run and where to reuse features.

Block pruning gives the probability that each residual block is dropped. Its prior favors dropping.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.distributions import RelaxedBernoulli
from torch.nn import functional as F

CHANNELS = 32  # channels of the encoder's features
TOLERANCE = 1e-10  # τ
TEMPERATURE = 0.5  # temperature of the relaxed Bernoulli samples
EARLIER_NAMES = {"normalise": "normalize", "deviation": "raw_std"}  # names of tensors in the shipped checkpoints


class SoftMasks(NamedTuple):
    """The masks of a batch."""

    keep: Tensor
    """(N, K) in [0, 1]: gates. Sampled in training, 0 or 1 at inference."""
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
        """True if block pruning has the distortion bias (the paper's dbb-DBB)."""
        # Half resolution is enough to see changes at 1/8, and a light encoder spends most time in its first layer.
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
        """Deterministic masks for inference, from the encoder features of two frames."""
        return self._masks(before, now, sampled=False)

    def sample(self, before: Tensor, now: Tensor) -> SoftMasks:
        """Masks for training, with sampled gates and a sampled shift of the batch-norm."""
        return self._masks(before, now, sampled=True)

    def steer(self, prior_mean: float, distortion_aware: bool) -> None:
        """Set the share of pruned blocks that the prior favors, and start from it."""
        self.distortion_aware = distortion_aware
        if self.pruning is not None:
            self.pruning.probability.prior_mean = prior_mean
            nn.init.constant_(self.pruning.probability.shift, prior_mean)

    def divergence(self) -> Tensor:
        """The sparsity loss; zero if there are no blocks to prune."""
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


class VariationalBatchNorm(nn.Module):
    """φ = clamp(γ (g - μ) / σ + β, τ): a batch-norm whose shift β ~ N(β_bn, δ²) is tied to the prior N(β_p, ρ²)."""

    def __init__(self, num_blocks: int, prior_mean: float = 0.5, prior_std: float = 1.0) -> None:
        """`prior_mean` is β_p, the prior's pruning probability for an average frame."""
        super().__init__()
        self.normalize = nn.BatchNorm1d(num_blocks, affine=False)
        self.scale = nn.Parameter(torch.full((num_blocks,), 0.2))  # γ spreads φ over [0, 1] around its mean
        self.shift = nn.Parameter(torch.full((num_blocks,), 0.5))  # β_bn
        self.raw_std = nn.Parameter(torch.full((num_blocks,), -3.0))  # δ_uc; δ = softplus(δ_uc)
        self.prior_mean = prior_mean
        self.prior_std = prior_std
        self.register_load_state_dict_pre_hook(_read_earlier_names)  # type: ignore[no-untyped-call]

    def forward(self, g: Tensor, sampled: bool) -> Tensor:
        """Pruning probabilities (N, K) of block values g (N, K). `sampled`: sample the shift; else use its mean."""
        noise = torch.randn_like(self.shift) * F.softplus(self.raw_std) if sampled else 0
        value: Tensor = self.scale * self.normalize(g) + self.shift + noise
        return value.clamp(TOLERANCE, 1 - TOLERANCE)

    def divergence(self) -> Tensor:
        """The sparsity loss: D_KL[β ‖ β_p] as in the paper, summed over blocks."""
        delta, rho = F.softplus(self.raw_std), self.prior_std
        terms = torch.log(rho / delta) + (delta**2 + (self.prior_mean - self.shift) ** 2) / (2 * rho**2)
        return terms.sum()


class BlockPruning(nn.Module):
    """H: maps the features of two frames to one pruning probability per block."""

    def __init__(self, channels: int, num_blocks: int) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(2 * channels, channels, 1)
        self.project = nn.Linear(channels, num_blocks)
        self.probability = VariationalBatchNorm(num_blocks)
        self.threshold: Tensor
        self.register_buffer("threshold", torch.tensor(0.5))  # blocks with at least this probability are pruned

    def forward(self, before: Tensor, now: Tensor, bias: Tensor | None, sampled: bool) -> Tensor:
        """Pruning probabilities (N, K). `bias` (N,) is η, the distortion bias; None leaves it out."""
        pooled = F.relu(self.convolution(torch.cat((before, now), 1))).mean((2, 3))
        g: Tensor = self.project(pooled)
        if bias is not None:
            g = g + bias[:, None]
        probability: Tensor = self.probability(g, sampled)
        return probability

    @torch.no_grad()
    def follow(self, probability: Tensor, keep: float, rate: float = 0.01) -> None:
        """Move the threshold so that on average a share `keep` of the blocks lies below it."""
        share = (probability < self.threshold).float().mean()
        self.threshold.add_(rate * (keep - share)).clamp_(TOLERANCE, 1)


def distortion_bias(changed: Tensor) -> Tensor:
    """η = 0.5 - mean(m_sp), (N,): the more has changed, the fewer blocks are pruned."""
    return 0.5 - changed.mean((1, 2, 3))


def relaxed_keep(probability: Tensor) -> Tensor:
    """Soft gates (N, K) in [0, 1] for training: one minus a relaxed Bernoulli sample of the pruning probability."""
    pruned: Tensor = RelaxedBernoulli(torch.tensor(TEMPERATURE), probs=probability).rsample()
    return 1 - pruned


def straight_through(probability: Tensor, threshold: float | Tensor = 0.5) -> Tensor:
    """Gates (N, K) decided as at inference, with the gradient of soft gates (the probability to keep a block)."""
    soft = 1 - probability
    return hard_keep(probability, threshold).to(soft.dtype) + soft - soft.detach()


def hard_keep(probability: Tensor, threshold: float | Tensor = 0.5) -> Tensor:
    """Boolean gates (N, K) for inference: keep blocks whose pruning probability is below the threshold."""
    return probability < threshold


def spatial_mask(before: Tensor, now: Tensor) -> Tensor:
    """m_sp = 0.5 - 0.5 cos(t, e) of each cell, (N, 1, h, w). 0: the same direction, 1: opposite."""
    return (0.5 - 0.5 * F.cosine_similarity(before, now, dim=1).clamp(-1, 1))[:, None]


def _downsampling(inputs: int, outputs: int) -> tuple[nn.Module, ...]:
    convolution = nn.Conv2d(inputs, outputs, 3, stride=2, padding=1, bias=False)
    return convolution, nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)


def _read_earlier_names(module: nn.Module, state: dict[str, Any], prefix: str, *_: Any) -> None:
    for earlier, name in EARLIER_NAMES.items():
        for key in [key for key in state if key == prefix + earlier or key.startswith(f"{prefix}{earlier}.")]:
            state[prefix + name + key.removeprefix(prefix + earlier)] = state.pop(key)
