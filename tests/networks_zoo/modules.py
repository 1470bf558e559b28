"""Networks of PyTorch as authors write them: what forward takes and returns differs from one to the next."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from networks_zoo.row import Answer, Image, Network, Row, above_half, answer_of, build_randomly, to_tensor, upsample
from stmg.networks import build
from zoo import MobileNet, Plain, ResBlock, ResNetWithDecoder

CLASSES = 5


class DeepLab(nn.Module):
    """A dict with `out` at full size and `aux`, as torchvision's networks return it."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), ResBlock(8, 16, 2), ResBlock(16, 16))
        self.rates = nn.ModuleList(nn.Conv2d(16, 8, 3, padding=rate, dilation=rate) for rate in (1, 2, 4))
        self.classifier, self.aux = nn.Conv2d(24, CLASSES, 1), nn.Conv2d(16, CLASSES, 1)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        features = self.backbone(x)
        parts = self.classifier(torch.cat([conv(features) for conv in self.rates], 1))
        resize = partial(F.interpolate, size=x.shape[-2:], mode="bilinear", align_corners=False)
        return OrderedDict(out=resize(parts), aux=resize(self.aux(features)))


class Unet(nn.Module):
    """An encoder and a decoder with skips; logits at full size, or what `activation` makes of them."""

    def __init__(self, classes: int = CLASSES, activation: Callable[[Tensor], Tensor] = lambda x: x) -> None:
        super().__init__()
        widths = (8, 16, 24)
        self.encoder = nn.ModuleList(nn.Conv2d(i, o, 3, 2, 1) for i, o in zip((3, *widths), widths, strict=False))
        self.decoder = nn.ModuleList(nn.Conv2d(i, o, 3, 1, 1) for i, o in ((40, 16), (24, 8)))
        self.segmentation_head = nn.Conv2d(8, classes, 3, padding=1)
        self.activation = activation

    def forward(self, x: Tensor) -> Tensor:
        features = []
        out = x
        for conv in self.encoder:
            out = F.relu(conv(out))
            features.append(out)
        for conv, skip in zip(self.decoder, features[-2::-1], strict=True):
            out = F.relu(conv(torch.cat([F.interpolate(out, scale_factor=2.0), skip], 1)))
        return self.activation(self.segmentation_head(F.interpolate(out, scale_factor=2.0)))


class DDRNetAuxiliary(nn.Module):
    """In training mode and out of it a list: the auxiliary logits at 1/8 first, then those to use."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, 4, 1), nn.BatchNorm2d(8), nn.ReLU())
        self.high, self.low = ResBlock(8, 16, 2), ResBlock(16, 16, 2)
        self.seghead_extra, self.final_layer = nn.Conv2d(16, CLASSES, 1), nn.Conv2d(16, CLASSES, 1)

    def forward(self, x: Tensor) -> list[Tensor]:
        high = self.high(self.stem(x))
        mixed = high + F.interpolate(self.low(high), size=high.shape[-2:], mode="bilinear", align_corners=False)
        return [self.seghead_extra(high), self.final_layer(mixed)]


class SidedSaliency(nn.Module):
    """Seven maps of one channel, the fused one first, all after a sigmoid, as U²-Net returns them."""

    def __init__(self) -> None:
        super().__init__()
        self.stages = nn.ModuleList(nn.Conv2d(i, 8, 3, 2, 1) for i in (3, 8, 8, 8, 8, 8))
        self.sides = nn.ModuleList(nn.Conv2d(8, 1, 3, padding=1) for _ in range(6))
        self.fuse = nn.Conv2d(6, 1, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        sides, out = [], x
        for stage, side in zip(self.stages, self.sides, strict=True):
            out = F.relu(stage(out))
            sides.append(F.interpolate(side(out), size=x.shape[-2:], mode="bilinear", align_corners=False))
        return tuple(torch.sigmoid(each) for each in (self.fuse(torch.cat(sides, 1)), *sides))


class Matting(nn.Module):
    """A dict of an alpha and a foreground, as matting networks return them."""

    def __init__(self) -> None:
        super().__init__()
        self.body = Unet(classes=4)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        out = self.body(x)
        return {"alpha": torch.sigmoid(out[:, :1]), "foreground": out[:, 1:]}


class Detached(nn.Module):
    """Keeps what its stages give by hooks, and decodes that."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, 4, 1)
        self.layers = nn.Sequential(*[ResBlock(8, 8) for _ in range(3)])
        self.head = nn.Conv2d(24, CLASSES, 1)
        self.seen: list[Tensor] = []
        for layer in self.layers:
            layer.register_forward_hook(self.keep)

    def keep(self, module: nn.Module, args: Any, out: Tensor) -> None:
        self.seen.append(out)

    def forward(self, x: Tensor) -> Tensor:
        self.seen = []
        self.layers(self.stem(x))
        return self.head(torch.cat(self.seen, 1))


class OneSize(nn.Module):
    """Position embeddings for one size, and no other."""

    def __init__(self, size: tuple[int, int]) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 16, 8, 8)
        self.positions = nn.Parameter(torch.randn(1, 16, size[0] // 8, size[1] // 8))
        self.head = nn.Conv2d(16, CLASSES, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.relu(self.patches(x) + self.positions))


def whole(out: Any) -> Tensor:
    return out


def module(make: Callable[[], nn.Module], find: Callable[[Any], Tensor], folder: Path) -> Network:
    model = build_randomly(make)
    return Network({"model": model}, answer_of(model, find))


def foreground(make: Callable[[], nn.Module], find: Callable[[Any], Tensor], is_logit: bool, folder: Path) -> Network:
    model = build_randomly(make)

    @torch.no_grad()
    def answer(image: Image) -> Answer:
        plane = torch.from_numpy(upsample(find(model(to_tensor(image))), image.shape[:2])[0])
        return above_half((torch.sigmoid(plane) if is_logit else plane).numpy())

    return Network({"model": model}, answer)


def auxiliary(folder: Path) -> Network:
    network = module(DDRNetAuxiliary, itemgetter(1), folder)
    return network._replace(names={**network.names, "example": torch.zeros(1, 3, 64, 96)})


def torchscript(folder: Path) -> Network:
    model = build_randomly(Unet)
    torch.jit.trace(model, torch.zeros(1, 3, 64, 96)).save(str(folder / "net.pt"))
    return Network({"file": str(folder / "net.pt")}, answer_of(model))


def torch_export(folder: Path) -> Network:
    model = build_randomly(Unet)
    torch.export.save(torch.export.export(model, (torch.zeros(1, 3, 64, 96),)), folder / "net.pt2")
    return Network({"file": str(folder / "net.pt2")}, answer_of(model))


MODULES, FOREGROUND, FILES = "PyTorch modules", "PyTorch modules, foreground", "PyTorch files"
LOAD = "stmg.VideoSegmenter(model)"
ASSUMED = "ImageNet normalization (assumed)"

ROWS = (
    Row(
        "DDRNet-23-slim",
        MODULES,
        LOAD,
        ("5 classes", "logits at 1/8", ASSUMED),
        partial(module, lambda: build("ddrnet23-slim", CLASSES), whole),
    ),
    Row(
        "ResNet with a decoder, dict",
        MODULES,
        LOAD,
        ("5 classes", "logits at full size", ASSUMED),
        partial(module, ResNetWithDecoder, itemgetter("out")),
    ),
    Row(
        "DeepLabV3 with aux, dict",
        MODULES,
        LOAD,
        ("5 classes", "logits at full size", ASSUMED),
        partial(module, DeepLab, itemgetter("out")),
    ),
    Row(
        "MobileNetV2, (logits, features)",
        MODULES,
        LOAD,
        ("5 classes", "logits at 1/8", ASSUMED),
        partial(module, MobileNet, itemgetter(0)),
    ),
    Row("U-Net", MODULES, LOAD, ("5 classes", "logits at full size", ASSUMED), partial(module, Unet, whole)),
    Row(
        "U-Net with a softmax",
        MODULES,
        LOAD,
        ("5 classes", "logits at full size", ASSUMED),
        partial(module, lambda: Unet(activation=nn.Softmax(1)), whole),
    ),
    Row(
        "no module but one weight",
        MODULES,
        LOAD,
        ("5 classes", "logits at 1/4", ASSUMED),
        partial(module, Plain, whole),
    ),
    Row(
        "features collected by hooks",
        MODULES,
        LOAD,
        ("5 classes", "logits at 1/4", ASSUMED),
        partial(module, Detached, whole),
    ),
    Row(
        "DDRNet with auxiliary logits first",
        MODULES,
        "stmg.VideoSegmenter(stmg.accelerate(model, example, output=1))",
        ("5 classes", "logits at 1/8", ASSUMED),
        auxiliary,
    ),
    Row(
        "position embeddings of one size",
        MODULES,
        "stmg.VideoSegmenter(model, size=(64, 96))",
        ("5 classes", "logits at 1/8", ASSUMED, "computed at 64x96"),
        partial(module, lambda: OneSize((64, 96)), whole),
    ),
    Row(
        "U-Net of one channel",
        FOREGROUND,
        LOAD,
        ("foreground", ASSUMED),
        partial(foreground, lambda: Unet(1), whole, True),
    ),
    Row(
        "U²-Net, seven maps",
        FOREGROUND,
        LOAD,
        ("foreground", ASSUMED),
        partial(foreground, SidedSaliency, itemgetter(0), False),
    ),
    Row(
        "matting, dict of alpha and foreground",
        FOREGROUND,
        LOAD,
        ("foreground", ASSUMED),
        partial(foreground, Matting, itemgetter("alpha"), False),
    ),
    Row(
        "TorchScript",
        FILES,
        "stmg.load(file)",
        ("5 classes", "logits at full size", ASSUMED),
        torchscript,
    ),
    Row(
        "torch.export",
        FILES,
        "stmg.load(file)",
        ("5 classes", "logits at full size", ASSUMED),
        torch_export,
    ),
)
