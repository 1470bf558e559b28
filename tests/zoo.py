"""Networks and videos as users bring them."""

from __future__ import annotations

from collections import OrderedDict

import cv2
import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from stmg.data.dataset import Dataset
from stmg.data.synthetic.scene import RenderedVideo, open_streets
from stmg.gating.accelerate import accelerate
from stmg.networks import build
from stmg.runtimes.torch import TorchRuntime
from stmg.streaming.cost import Cost


class ResBlock(nn.Module):
    """A basic block of a ResNet."""

    def __init__(self, inputs: int, planes: int, stride: int = 1) -> None:
        super().__init__()
        self.a = nn.Sequential(nn.Conv2d(inputs, planes, 3, stride, 1, bias=False), nn.BatchNorm2d(planes), nn.ReLU())
        self.b = nn.Sequential(nn.Conv2d(planes, planes, 3, 1, 1, bias=False), nn.BatchNorm2d(planes))
        self.skip = nn.Identity() if stride == 1 and inputs == planes else nn.Conv2d(inputs, planes, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.b(self.a(x)) + self.skip(x))


class Decoder(nn.Module):
    """Takes features of several stages as a list."""

    def __init__(self, widths: list[int], num_classes: int) -> None:
        super().__init__()
        self.lateral = nn.ModuleList(nn.Conv2d(width, 16, 1) for width in widths)
        self.classify = nn.Conv2d(16, num_classes, 3, padding=1)

    def forward(self, features: list[Tensor]) -> Tensor:
        size = features[0].shape[-2:]
        parts = [F.interpolate(conv(x), size=size) for conv, x in zip(self.lateral, features, strict=True)]
        return self.classify(sum(parts))


class ResNetWithDecoder(nn.Module):
    """A ResNet-18 encoder, narrow, whose decoder takes all four stages; returns a dict, logits at full size."""

    def __init__(self, num_classes: int = 5) -> None:
        super().__init__()
        widths = [8, 16, 24, 32]
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 7, 2, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
        self.layer1 = nn.Sequential(ResBlock(8, 8), ResBlock(8, 8))
        self.layer2 = nn.Sequential(ResBlock(8, 16, 2), ResBlock(16, 16))
        self.layer3 = nn.Sequential(ResBlock(16, 24, 2), ResBlock(24, 24))
        self.layer4 = nn.Sequential(ResBlock(24, 32, 2), ResBlock(32, 32))
        self.decoder = Decoder(widths, num_classes)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        one = self.layer1(self.stem(x))
        two = self.layer2(one)
        three = self.layer3(two)
        logits = self.decoder([one, two, three, self.layer4(three)])
        return OrderedDict(out=F.interpolate(logits, size=x.shape[-2:], mode="bilinear", align_corners=False))


class InvertedResidual(nn.Module):
    """A block of MobileNetV2: a skip only where the shape stays."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        hidden = inputs * 3
        self.use_skip = stride == 1 and inputs == outputs
        self.conv = nn.Sequential(
            nn.Conv2d(inputs, hidden, 1, bias=False),
            nn.BatchNorm2d(hidden),
            nn.ReLU6(),
            nn.Conv2d(hidden, hidden, 3, stride, 1, groups=hidden, bias=False),
            nn.BatchNorm2d(hidden),
            nn.ReLU6(),
            nn.Conv2d(hidden, outputs, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )

    def forward(self, x: Tensor) -> Tensor:
        return x + self.conv(x) if self.use_skip else self.conv(x)


class MobileNet(nn.Module):
    """Inverted residuals of all stages in one container; returns (logits, features)."""

    def __init__(self, num_classes: int = 5) -> None:
        super().__init__()
        plan = [(8, 8, 1), (8, 16, 2), (16, 16, 1), (16, 16, 1), (16, 24, 2), (24, 24, 1)]
        self.features = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), *[InvertedResidual(*one) for one in plan])
        self.classifier = nn.Conv2d(24, num_classes, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        features = self.features(x)
        return self.classifier(features), features


class TupleBlock(nn.Module):
    """A residual block on two streams at once: a tuple in, a tuple and nothing else out."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.one = nn.Sequential(nn.Conv2d(width, width, 3, padding=1))
        self.two = nn.Sequential(nn.Conv2d(width, width, 3, padding=1))

    def forward(self, pair: tuple[Tensor, Tensor], scale: float = 1.0) -> tuple[Tensor, Tensor, None]:
        a, b = pair
        return a + scale * self.one(b), b + scale * self.two(a), None


class TwoStreams(nn.Module):
    """Blocks that take and return tuples."""

    def __init__(self, num_classes: int = 5) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, 4, 1)
        self.blocks = nn.ModuleList(TupleBlock(8) for _ in range(3))
        self.head = nn.Conv2d(8, num_classes, 1)

    def forward(self, x: Tensor) -> list[Tensor]:
        pair = (self.stem(x), self.stem(x).neg())
        for block in self.blocks:
            *pair, _ = block(tuple(pair), scale=0.5)
        return [self.head(pair[0] + pair[1])]


class Plain(nn.Module):
    """No residual block, no module for a head."""

    def __init__(self, num_classes: int = 5) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(num_classes, 3, 3, 3))

    def forward(self, x: Tensor) -> Tensor:
        return F.conv2d(x, self.weight, stride=4, padding=1)


def colors(image: np.ndarray) -> np.ndarray:
    """A black box: three classes, the strongest color."""
    return image.astype(np.float32).transpose(2, 0, 1)


def texture(height: int, width: int, seed: int = 0) -> np.ndarray:
    """A smooth random image, RGB."""
    noise = np.random.default_rng(seed).integers(0, 256, (height // 8 + 2, width // 8 + 2, 3)).astype(np.uint8)
    return cv2.resize(noise, (width, height), interpolation=cv2.INTER_CUBIC)


def panning(num_frames: int, size: tuple[int, int] = (96, 128), step: int = 2, seed: int = 0) -> list[np.ndarray]:
    """Frames of a camera that pans to the right over a texture by `step` pixels a frame."""
    height, width = size
    wide = texture(height, width + step * num_frames, seed)
    return [np.ascontiguousarray(wide[:, step * n : step * n + width]) for n in range(num_frames)]


def streets(num_frames: int, size: tuple[int, int]) -> Dataset:
    """Two rendered streets, every frame labeled, in the split `val`."""
    data = open_streets("street:0-0")
    videos = tuple(RenderedVideo(seed, num_frames, size, every_label=True) for seed in (1, 2))
    return Dataset("streets", data.class_names, data.palette, {"val": videos})


def masked_runtime(size: tuple[int, int]) -> TorchRuntime:
    """The small network for streets with a mask generator, none of it trained."""
    torch.manual_seed(0)
    network = accelerate(build("small", 11), torch.zeros(1, 3, *size), mask_generator=True)
    return TorchRuntime(network, device="cpu")


class Painter:
    """A corrector that says class 2 in the left half, and nothing in the right."""

    num_classes = 3  # as `colors` gives

    def __init__(self, strength=1.0, *, between=True):
        self.strength, self.between, self.seen = strength, between, []

    def correct(self, image, before, logits):
        self.seen.append((image, before, logits))
        mask = np.zeros(logits.shape[:2], np.float32)
        mask[:, : mask.shape[1] // 2] = self.strength
        new = logits.copy()
        new[mask > 0] = np.eye(logits.shape[2], dtype=np.float32)[logits.shape[2] - 1] * 9
        return new, mask

    def cost(self, size):
        return Cost(macs=7, params=2)
