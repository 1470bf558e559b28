"""Normalization of images on any device, the counterpart of `video.normalization` in PyTorch."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn


class NormalizeImage(nn.Module):
    """RGB images (N, H, W, 3) of uint8 to what networks take, (N, 3, H, W) of float32.

    mean, std: of each channel, for values from 0 to 1. The result lies in memory as the images do, channels last.
    """

    mean: Tensor
    scale: Tensor

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor(mean).reshape(1, 3, 1, 1) * 255, persistent=False)
        self.register_buffer("scale", 1 / (torch.tensor(std).reshape(1, 3, 1, 1) * 255), persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        return (images.permute(0, 3, 1, 2).to(self.mean.dtype) - self.mean) * self.scale
