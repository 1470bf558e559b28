"""Block pruning: the probability that each residual block is dropped, with a prior that makes dropping the rule."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.distributions import RelaxedBernoulli
from torch.nn import functional as F

TOLERANCE = 1e-10  # τ
TEMPERATURE = 0.5  # of the relaxed Bernoulli samples
EARLIER_NAMES = {"normalise": "normalize", "deviation": "raw_std"}  # of tensors in the shipped checkpoints


class VariationalBatchNorm(nn.Module):
    """φ = clamp(γ (g - μ) / σ + β, τ), a batch-norm whose shift β ~ N(β_bn, δ²) is held to the prior N(β_p, ρ²)."""

    def __init__(self, num_blocks: int, prior_mean: float = 0.5, prior_std: float = 1.0) -> None:
        """`prior_mean` is β_p: the pruning probability that the prior wants of an average frame."""
        super().__init__()
        self.normalize = nn.BatchNorm1d(num_blocks, affine=False)
        self.scale = nn.Parameter(torch.full((num_blocks,), 0.2))  # γ: spreads φ over [0, 1] about its mean
        self.shift = nn.Parameter(torch.full((num_blocks,), 0.5))  # β_bn
        self.raw_std = nn.Parameter(torch.full((num_blocks,), -3.0))  # δ_uc; δ = softplus(δ_uc)
        self.prior_mean = prior_mean
        self.prior_std = prior_std
        self.register_load_state_dict_pre_hook(_read_earlier_names)  # type: ignore[no-untyped-call]

    def forward(self, g: Tensor, sampled: bool) -> Tensor:
        """Pruning probabilities (N, K) of block values g (N, K); `sampled` samples the shift, else it is its mean."""
        noise = torch.randn_like(self.shift) * F.softplus(self.raw_std) if sampled else 0
        value: Tensor = self.scale * self.normalize(g) + self.shift + noise
        return value.clamp(TOLERANCE, 1 - TOLERANCE)

    def divergence(self) -> Tensor:
        """D_KL[β ‖ β_p] as the paper writes it, summed over blocks: the sparsity loss."""
        delta, rho = F.softplus(self.raw_std), self.prior_std
        terms = torch.log(rho / delta) + (delta**2 + (self.prior_mean - self.shift) ** 2) / (2 * rho**2)
        return terms.sum()


class BlockPruning(nn.Module):
    """H: features of two frames to one pruning probability per block."""

    def __init__(self, channels: int, num_blocks: int) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(2 * channels, channels, 1)
        self.project = nn.Linear(channels, num_blocks)
        self.probability = VariationalBatchNorm(num_blocks)
        self.threshold: Tensor
        self.register_buffer("threshold", torch.tensor(0.5))  # of the probability at which a block is pruned

    def forward(self, before: Tensor, now: Tensor, bias: Tensor | None, sampled: bool) -> Tensor:
        """Probabilities (N, K) of being pruned; `bias` (N,) is η, the distortion bias, if it is to be added."""
        pooled = F.relu(self.convolution(torch.cat((before, now), 1))).mean((2, 3))
        g: Tensor = self.project(pooled)
        if bias is not None:
            g = g + bias[:, None]
        probability: Tensor = self.probability(g, sampled)
        return probability

    @torch.no_grad()
    def follow(self, probability: Tensor, keep: float, rate: float = 0.01) -> None:
        """Move the threshold so that a share `keep` of the blocks lies below it, on average over what it has seen."""
        share = (probability < self.threshold).float().mean()
        self.threshold.add_(rate * (keep - share)).clamp_(TOLERANCE, 1)


def distortion_bias(changed: Tensor) -> Tensor:
    """η = 0.5 - mean(m_sp), (N,): the more has changed, the less is pruned."""
    return 0.5 - changed.mean((1, 2, 3))


def relaxed_keep(probability: Tensor) -> Tensor:
    """Soft gates (N, K) in [0, 1] for training: one minus a relaxed Bernoulli sample of being pruned."""
    pruned: Tensor = RelaxedBernoulli(torch.tensor(TEMPERATURE), probs=probability).rsample()
    return 1 - pruned


def straight_through(probability: Tensor, threshold: float | Tensor = 0.5) -> Tensor:
    """Gates (N, K) decided as at inference, with the gradient of soft ones: the probability that a block is kept."""
    soft = 1 - probability
    return hard_keep(probability, threshold).to(soft.dtype) + soft - soft.detach()


def hard_keep(probability: Tensor, threshold: float | Tensor = 0.5) -> Tensor:
    """Gates (N, K) of booleans for inference: keep what is pruned with less than the threshold's probability."""
    return probability < threshold


def _read_earlier_names(module: nn.Module, state: dict[str, Any], prefix: str, *_: Any) -> None:
    for earlier, name in EARLIER_NAMES.items():
        for key in [key for key in state if key == prefix + earlier or key.startswith(f"{prefix}{earlier}.")]:
            state[prefix + name + key.removeprefix(prefix + earlier)] = state.pop(key)
