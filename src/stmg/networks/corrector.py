"""The corrector: a small network for frames the large one did not compute; a light form of the paper's aggregation.

Its inputs are the frame, an earlier frame warped onto it, and the warped logits of that earlier frame. It predicts
where these logits no longer hold (`mask`) and which ones to use there (`new`): logits = (1 - mask) * warped + mask *
new. The frame passes through the first stages of an EfficientNet-Lite0, which may start from ImageNet.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from stmg.networks.lite import Encoder, load_imagenet

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # normalization of the ImageNet weights


class Shape(NamedTuple):
    """Size of a corrector."""

    width: int
    """Channels of the decoder."""
    stages: int
    """Number of the encoder's seven stages that are used: 3 or 5."""
    shrink: int
    """Factor by which the image is reduced for the encoder."""


# From small to large; each costs more than the one before.
SHAPES = (
    Shape(16, 3, 2),
    Shape(16, 5, 2),
    Shape(24, 5, 2),
    Shape(32, 5, 2),
    Shape(48, 5, 2),
    Shape(32, 5, 1),
    Shape(48, 5, 1),
    Shape(64, 5, 1),
    Shape(96, 5, 1),
)


class Corrector(nn.Module):
    """Logits (N, C, h, w) and a mask (N, 1, h, w) at 1/8 of the frame's size, from images (N, H, W, 3) at 1/2.

    num_classes: C, at least 2.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, num_classes: int, shape: Shape) -> None:
        super().__init__()
        self.num_classes, self.shape = num_classes, shape
        width = shape.width
        self.encoder = Encoder(shape.stages)
        for module in self.encoder.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.momentum = 0.1  # training takes few steps, on images unlike ImageNet's
        fine, *coarse = self.encoder.channels
        self.stem = nn.Sequential(_conv(3, 16, stride=2), _conv(16, width // 2, stride=2))
        self.join = _conv(fine + width // 2 + num_classes + 1, width, kernel=1)
        self.laterals = nn.ModuleList(_linear(channels, width) for channels in coarse)
        self.context = nn.Linear(width, width)
        self.smooth = nn.ModuleList(_conv(width, width) for _ in coarse)
        last = nn.Conv2d(width, num_classes + 1, 1)
        self.out = nn.Sequential(_conv(width, width), _conv(width, width), last)
        assert last.bias is not None
        nn.init.constant_(last.bias[-1:], -2.0)  # start with a mask close to 0, which changes nothing
        self.register_buffer("mean", 255 * torch.tensor(MEAN).view(1, 3, 1, 1), persistent=False)
        self.register_buffer("std", 255 * torch.tensor(STD).view(1, 3, 1, 1), persistent=False)

    def start_from_imagenet(self) -> None:
        """Load ImageNet weights into the encoder."""
        load_imagenet(self.encoder)

    def forward(self, image: Tensor, before: Tensor, warped: Tensor) -> tuple[Tensor, Tensor]:
        """`image` and `before` are uint8: the frame, and the earlier frame warped onto it."""
        now, then = ((each.permute(0, 3, 1, 2).float() - self.mean) / self.std for each in (image, before))
        size = warped.shape[-2:]
        difference = now - then
        unlike = _resize(difference.abs().mean(1, keepdim=True), size)
        fine, *coarse = self.encoder(F.avg_pool2d(now, self.shape.shrink) if self.shape.shrink > 1 else now)
        x = torch.cat([_resize(fine, size), _resize(self.stem(difference), size), warped.softmax(1), unlike], 1)
        out = self.out(self.join(x) + _resize(self._gather(coarse), size))
        mask = out[:, -1:].sigmoid()
        return (1 - mask) * warped + mask * out[:, :-1], mask

    def _gather(self, coarse: list[Tensor]) -> Tensor:
        """Combine the coarser features from coarse to fine, starting with a summary of the whole image."""
        maps = [lateral(features) for lateral, features in zip(self.laterals, coarse, strict=True)]
        above: Tensor = maps[-1] + self.context(maps[-1].mean((2, 3)))[:, :, None, None]
        for smooth, features in zip(self.smooth, reversed(maps), strict=True):
            if features is not maps[-1]:
                above = features + _resize(above, features.shape[-2:])
            above = smooth(F.relu(above))
        return above


def _resize(x: Tensor, size: torch.Size) -> Tensor:
    return x if x.shape[-2:] == size else F.interpolate(x, size=size, mode="bilinear", align_corners=False)


def _conv(inputs: int, outputs: int, stride: int = 1, kernel: int = 3) -> nn.Sequential:
    return nn.Sequential(*_linear(inputs, outputs, stride, kernel), nn.ReLU(inplace=True))


def _linear(inputs: int, outputs: int, stride: int = 1, kernel: int = 1) -> nn.Sequential:
    convolution = nn.Conv2d(inputs, outputs, kernel, stride=stride, padding=kernel // 2, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(outputs))
