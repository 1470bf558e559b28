"""Graph files as exporters write them; each is run by its own engine for comparison."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import graphs
from networks_zoo.modules import DeepLab, Unet, whole
from networks_zoo.row import (
    SIZE,
    Answer,
    Image,
    Network,
    Row,
    above_half,
    answer_of,
    build_randomly,
)


class Best(nn.Module):
    """The index of the best class inside the graph, as mobile exports have it."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor) -> Tensor:
        return self.network(x).argmax(1)


class ChannelsLast(nn.Module):
    """Images and logits (1, H, W, C), as exports from TensorFlow have them."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor) -> Tensor:
        return self.network(x.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)


def export(model: nn.Module, path: Path, example: Tensor) -> None:
    torch.onnx.export(model, (example,), str(path), dynamo=False, input_names=["image"], output_names=["out"])


def onnx(make: Callable[[], nn.Module], find: Callable[[Any], Tensor], folder: Path) -> Network:
    model = build_randomly(make)
    export(model, folder / "net.onnx", torch.zeros(1, 3, *SIZE))
    return Network({"file": str(folder / "net.onnx")}, answer_of(model, find))


def onnx_labels(folder: Path) -> Network:
    model = build_randomly(Unet)
    export(Best(model), folder / "net.onnx", torch.zeros(1, 3, *SIZE))
    return Network({"file": str(folder / "net.onnx")}, answer_of(model))


def onnx_channels_last(folder: Path) -> Network:
    model = build_randomly(Unet)
    export(ChannelsLast(model), folder / "net.onnx", torch.zeros(1, *SIZE, 3))
    return Network({"file": str(folder / "net.onnx")}, answer_of(model))


def openvino(folder: Path) -> Network:
    from openvino import convert_model, save_model

    model = build_randomly(Unet)
    export(model, folder / "net.onnx", torch.zeros(1, 3, *SIZE))
    save_model(convert_model(folder / "net.onnx"), folder / "net.xml", compress_to_fp16=False)
    return Network({"file": str(folder / "net.xml")}, answer_of(model))


def brightness(write: Callable[[Path], Path], name: str, folder: Path) -> Network:
    """A graph whose answer is known by hand: foreground where a pixel is brighter than half."""
    write(folder / name)

    def answer(image: Image) -> Answer:
        return above_half(1 / (1 + np.exp(-graphs.brightness(image))))

    return Network({"file": str(folder / name)}, answer)


GRAPHS = "graph files"
LOAD, NONE, HALVES = "stmg.load(file)", 'stmg.load(file, normalize="none")', 'stmg.load(file, normalize="half")'
ASSUMED = "ImageNet normalization (assumed)"


ROWS = (
    Row("ONNX, logits", GRAPHS, LOAD, ("5 classes", "logits at full size", ASSUMED), partial(onnx, Unet, whole)),
    Row(
        "ONNX, logits and auxiliary logits",
        GRAPHS,
        'stmg.load(file, output="out")',
        ("5 classes", ASSUMED),
        partial(onnx, DeepLab, itemgetter("out")),
    ),
    Row("ONNX, labels", GRAPHS, LOAD, ("labels", ASSUMED), onnx_labels),
    Row("ONNX, channels last", GRAPHS, LOAD, ("5 classes", "logits at full size", ASSUMED), onnx_channels_last),
    Row(
        "ONNX, one channel after a sigmoid",
        GRAPHS,
        NONE,
        ("foreground", "probability"),
        partial(brightness, partial(graphs.save_one_channel, sigmoid=True), "net.onnx"),
        size=graphs.SIZE,
    ),
    Row(
        "ONNX, one channel of logits",
        GRAPHS,
        NONE,
        ("foreground", "logits"),
        partial(brightness, partial(graphs.save_one_channel, sigmoid=False), "net.onnx"),
        size=graphs.SIZE,
    ),
    Row(
        "ONNX, seven outputs",
        GRAPHS,
        'stmg.load(file, output="1959", normalize="none")',
        ("foreground", "probability"),
        partial(brightness, graphs.save_several_outputs, "net.onnx"),
        size=graphs.SIZE,
    ),
    Row("OpenVINO, logits", GRAPHS, LOAD, ("5 classes", "logits at full size", ASSUMED), openvino),
    Row(
        "TFLite, one channel after a sigmoid",
        GRAPHS,
        HALVES,
        ("foreground", "probability"),
        partial(brightness, graphs.save_tflite, "net.tflite"),
        size=graphs.SIZE,
    ),
)
