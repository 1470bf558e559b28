"""Networks of torchvision and of segmentation_models_pytorch, built where these are installed."""

from __future__ import annotations

from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any

from networks_zoo.row import Network, Row, answer_of, build_randomly

Draw = tuple[int, float]


def torchvision(name: str, draw: Draw, folder: Path) -> Network:
    from torchvision.models import get_model

    make = partial(get_model, name, weights=None, weights_backbone=None, num_classes=5)
    model = build_randomly(make, *draw)
    return Network({"model": model}, answer_of(model, itemgetter("out")))


def smp(architecture: str, encoder: str, draw: Draw, folder: Path) -> Network:
    import segmentation_models_pytorch

    options: dict[str, Any] = {"encoder_name": encoder, "encoder_weights": None, "classes": 5}
    model = build_randomly(partial(segmentation_models_pytorch.create_model, architecture, **options), *draw)
    model.save_pretrained(folder)
    return Network({"folder": str(folder)}, answer_of(model))


def torchvision_row(title: str, name: str, draw: Draw = (2, 1.5)) -> Row:
    understood = ("5 classes", "logits at full size", "ImageNet normalization (assumed)")
    build = partial(torchvision, name, draw)
    return Row(title, "torchvision", "stmg.VideoSegmenter(model)", understood, build, needs=("torchvision",))


def smp_row(architecture: str, encoder: str = "resnet18", draw: Draw = (2, 1.5)) -> Row:
    title = f"{architecture} on {encoder}"
    understood = ("5 classes", "logits at full size", "ImageNet normalization")
    needs = ("segmentation_models_pytorch",)
    build = partial(smp, architecture.replace("+", "plus"), encoder, draw)
    return Row(
        title,
        "segmentation_models_pytorch",
        'stmg.load("smp:" + folder, size=(64, 96))',
        understood,
        build,
        needs=needs,
    )


ROWS = (
    torchvision_row("LR-ASPP, MobileNetV3", "lraspp_mobilenet_v3_large", (1, 0.7)),
    torchvision_row("DeepLabV3, MobileNetV3", "deeplabv3_mobilenet_v3_large"),
    torchvision_row("DeepLabV3, ResNet-50", "deeplabv3_resnet50", (1, 1.5)),
    torchvision_row("FCN, ResNet-50", "fcn_resnet50"),
    smp_row("Unet"),
    smp_row("FPN"),
    smp_row("DeepLabV3+"),
    smp_row("PSPNet"),
    smp_row("Segformer"),
    smp_row("Unet", "tu-mobilenetv3_small_100"),
)
