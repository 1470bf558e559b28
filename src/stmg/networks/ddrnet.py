"""DDRNet: a branch that keeps detail at 1/8 and a branch that gathers context, joined by pyramid pooling.

Module names are those of the official networks, so that published weights load unchanged.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Sizes(NamedTuple):
    """Sizes of one member of the family."""

    planes: int
    head_planes: int
    blocks: tuple[int, int, int, int]
    """Residual blocks of the context branch's four stages. A third stage of six is split in two."""
    pooling_planes: int = 128


SIZES = {
    "ddrnet23-narrow": Sizes(planes=16, head_planes=32, blocks=(2, 2, 2, 2), pooling_planes=64),
    "ddrnet23-slim": Sizes(planes=32, head_planes=64, blocks=(2, 2, 2, 2)),
    "ddrnet23": Sizes(planes=64, head_planes=128, blocks=(2, 2, 2, 2)),
    "ddrnet39": Sizes(planes=64, head_planes=256, blocks=(3, 4, 6, 3)),
}


class DDRNet(nn.Module):
    """Logits (N, num_classes, H/8, W/8) for an image (N, 3, H, W) of any size.

    With `auxiliary` the result is (logits, auxiliary logits). The second come from the middle of the detail branch.
    """

    def __init__(self, sizes: Sizes, num_classes: int, auxiliary: bool = False) -> None:
        super().__init__()
        planes, detail, context = sizes.planes, sizes.planes * 2, sizes.planes * 4
        self.conv1 = nn.Sequential(
            nn.Conv2d(3, planes, 3, stride=2, padding=1),
            nn.BatchNorm2d(planes),
            nn.ReLU(inplace=True),
            nn.Conv2d(planes, planes, 3, stride=2, padding=1),
            nn.BatchNorm2d(planes),
            nn.ReLU(inplace=True),
        )
        self.layer1 = _stage(planes, planes, sizes.blocks[0])
        self.layer2 = _stage(planes, detail, sizes.blocks[1], stride=2)
        halves = ("3",) if sizes.blocks[2] < 6 else ("3_1", "3_2")
        width = detail
        for tag in halves:
            num_blocks = sizes.blocks[2] // len(halves)
            self.add_module(f"layer{tag}", _stage(width, context, num_blocks, stride=context // width))
            self.add_module(f"layer{tag}_", _stage(detail, detail, num_blocks))
            self.add_module(f"compression{tag}", nn.Sequential(*_conv_and_norm(detail, context, kernel=1)))
            self.add_module(f"down{tag}", nn.Sequential(*_conv_and_norm(context, detail, stride=2)))
            width = context
        self.layer4 = _stage(context, planes * 8, sizes.blocks[3], stride=2)
        self.layer4_ = _stage(detail, detail, sizes.blocks[3])
        self.compression4 = nn.Sequential(*_conv_and_norm(detail, planes * 8, kernel=1))
        self.down4 = nn.Sequential(
            *_conv_and_norm(context, detail, stride=2),
            nn.ReLU(inplace=True),
            *_conv_and_norm(planes * 8, context, stride=2),
        )
        self.exchanges = (*halves, "4")
        self.layer5 = nn.Sequential(Bottleneck(planes * 8, stride=2))
        self.layer5_ = nn.Sequential(Bottleneck(detail))
        self.spp = PyramidPooling(planes * 16, sizes.pooling_planes, context)
        self.seghead_extra = Head(detail, sizes.head_planes, num_classes) if auxiliary else None
        self.final_layer = Head(context, sizes.head_planes, num_classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, image: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        low = detail = self.layer2(F.relu(self.layer1(self.conv1(image)), inplace=True))
        for tag in self.exchanges:
            half_way = detail
            detail = F.relu(detail)
            low = detail if low is half_way else F.relu(low, inplace=True)
            low, detail = self._exchange(tag, low, detail)
        context = self.spp(self.layer5(F.relu(low, inplace=True)))
        detail = self.layer5_(F.relu(detail, inplace=True))
        logits: Tensor = self.final_layer(_resize_like(context, detail).add_(detail))
        return logits if self.seghead_extra is None else (logits, self.seghead_extra(half_way))

    def _exchange(self, tag: str, low: Tensor, detail: Tensor) -> tuple[Tensor, Tensor]:
        """Run one stage of both branches, then add each branch to the other."""
        low = self.get_submodule(f"layer{tag}")(low)
        detail = self.get_submodule(f"layer{tag}_")(detail)
        to_low = self.get_submodule(f"down{tag}")(F.relu(detail))
        to_detail = self.get_submodule(f"compression{tag}")(F.relu(low))
        return to_low.add_(low), _resize_like(to_detail, detail).add_(detail)


class BasicBlock(nn.Module):
    """Two 3x3 convolutions beside the identity. The last block of a stage has no final ReLU."""

    def __init__(self, inputs: int, planes: int, stride: int = 1, last: bool = False) -> None:
        super().__init__()
        self.conv1, self.bn1 = _conv_and_norm(planes, inputs, stride=stride)
        self.conv2, self.bn2 = _conv_and_norm(planes, planes)
        self.downsample = _projection(inputs, planes, stride)
        self.last = last

    def forward(self, x: Tensor) -> Tensor:
        out = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)), inplace=True)))
        out += x if self.downsample is None else self.downsample(x)
        return out if self.last else F.relu(out, inplace=True)


class Bottleneck(nn.Module):
    """1x1, 3x3 and 1x1 convolutions to twice the channels, without a final ReLU."""

    def __init__(self, planes: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1, self.bn1 = _conv_and_norm(planes, planes, kernel=1)
        self.conv2, self.bn2 = _conv_and_norm(planes, planes, stride=stride)
        self.conv3, self.bn3 = _conv_and_norm(planes * 2, planes, kernel=1)
        self.downsample = _projection(planes, planes * 2, stride)

    def forward(self, x: Tensor) -> Tensor:
        out = F.relu(self.bn1(self.conv1(x)), inplace=True)
        out = F.relu(self.bn2(self.conv2(out)), inplace=True)
        assert self.downsample is not None
        return self.bn3(self.conv3(out)) + self.downsample(x)  # type: ignore[no-any-return]


class PyramidPooling(nn.Module):
    """DAPPM: context from five scales. Each is refined by the next smaller one."""

    def __init__(self, inputs: int, planes: int, outputs: int) -> None:
        super().__init__()
        self.scale0 = _norm_relu_conv(inputs, planes)
        pools = [nn.AvgPool2d(2 ** (n + 1) + 1, 2**n, 2**n) for n in (1, 2, 3)]
        for number, pool in enumerate([*pools, nn.AdaptiveAvgPool2d(1)], start=1):
            self.add_module(f"scale{number}", nn.Sequential(pool, *_norm_relu_conv(inputs, planes)))
            self.add_module(f"process{number}", _norm_relu_conv(planes, planes, kernel=3))
        self.compression = _norm_relu_conv(planes * 5, outputs)
        self.shortcut = _norm_relu_conv(inputs, outputs)

    def forward(self, x: Tensor) -> Tensor:
        scales = [self.scale0(x)]
        for number in (1, 2, 3, 4):
            pooled = _resize_like(self.get_submodule(f"scale{number}")(x), x)
            scales.append(self.get_submodule(f"process{number}")(pooled + scales[-1]))
        return self.compression(torch.cat(scales, 1)) + self.shortcut(x)  # type: ignore[no-any-return]


class Head(nn.Module):
    """Turns features into logits."""

    def __init__(self, inputs: int, planes: int, num_classes: int) -> None:
        super().__init__()
        self.bn1 = nn.BatchNorm2d(inputs)
        self.conv1 = nn.Conv2d(inputs, planes, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        self.conv2 = nn.Conv2d(planes, num_classes, 1)

    def forward(self, x: Tensor) -> Tensor:
        out = self.conv1(F.relu(self.bn1(x), inplace=True))
        return self.conv2(F.relu(self.bn2(out), inplace=True))  # type: ignore[no-any-return]


def _stage(inputs: int, planes: int, num_blocks: int, stride: int = 1) -> nn.Sequential:
    last = num_blocks - 1
    blocks = [BasicBlock(inputs, planes, stride, last=last == 0)]
    blocks += [BasicBlock(planes, planes, last=number == last) for number in range(1, num_blocks)]
    return nn.Sequential(*blocks)


def _conv_and_norm(outputs: int, inputs: int, kernel: int = 3, stride: int = 1) -> tuple[nn.Conv2d, nn.BatchNorm2d]:
    convolution = nn.Conv2d(inputs, outputs, kernel, stride=stride, padding=kernel // 2, bias=False)
    return convolution, nn.BatchNorm2d(outputs)


def _norm_relu_conv(inputs: int, outputs: int, kernel: int = 1) -> nn.Sequential:
    convolution = nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2, bias=False)
    return nn.Sequential(nn.BatchNorm2d(inputs), nn.ReLU(inplace=True), convolution)


def _projection(inputs: int, outputs: int, stride: int) -> nn.Sequential | None:
    if stride == 1 and inputs == outputs:
        return None
    return nn.Sequential(*_conv_and_norm(outputs, inputs, kernel=1, stride=stride))


def _resize_like(x: Tensor, like: Tensor) -> Tensor:
    return F.interpolate(x, size=like.shape[-2:], mode="bilinear", align_corners=False)
