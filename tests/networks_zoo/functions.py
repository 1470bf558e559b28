"""Functions from an RGB image to what they find in it, in every form that functions give it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
from numpy.typing import NDArray

from networks_zoo.modules import Unet
from networks_zoo.row import NAMES, Image, Network, Row, above_half, answer_of, best_of, build_randomly

SHADES = np.linspace(0, 255, len(NAMES), dtype=np.float32)


def closeness(image: Image) -> NDArray[np.float32]:
    """(C, H, W): how near the brightness of a pixel is to that of each class."""
    gray = cv2.GaussianBlur(image, (0, 0), 2).astype(np.float32).mean(2)
    return -np.abs(gray - SHADES[:, None, None]) / 32


def brightness(image: Image) -> NDArray[np.float32]:
    """(H, W), from 0 to 1."""
    return cv2.GaussianBlur(image, (0, 0), 2).astype(np.float32).mean(2) / 255


def logits(image: Image) -> NDArray[np.float32]:
    return closeness(image)


def logits_channels_last(image: Image) -> NDArray[np.float32]:
    return closeness(image).transpose(1, 2, 0)


def batch_of_logits(image: Image) -> torch.Tensor:
    return torch.from_numpy(closeness(image))[None]


def probabilities(image: Image) -> NDArray[np.float32]:
    exponents = np.exp(closeness(image))
    return exponents / exponents.sum(0)


def labels(image: Image) -> NDArray[np.int64]:
    return closeness(image).argmax(0)


def labels_as_bytes(image: Image) -> NDArray[np.uint8]:
    return closeness(image).argmax(0).astype(np.uint8)


def mask(image: Image) -> NDArray[np.bool_]:
    return brightness(image) > 0.5


def probability(image: Image) -> NDArray[np.float32]:
    return brightness(image)[None]


def mask_logits(image: Image) -> NDArray[np.float32]:
    return 8 * (brightness(image)[None] - 0.5)


def of_classes(function: Callable[[Image], Any], folder: Path) -> Network:
    return Network({"function": function}, lambda image: best_of(closeness(image)))


def of_foreground(function: Callable[[Image], Any], folder: Path) -> Network:
    return Network({"function": function}, lambda image: above_half(brightness(image)))


def nets_py(folder: Path) -> Network:
    """A file with a function that builds a network."""
    model = build_randomly(Unet)
    torch.save(model.state_dict(), folder / "net.pth")
    (folder / "nets.py").write_text("from networks_zoo.modules import Unet\n\n\ndef build():\n    return Unet()\n")
    return Network({"folder": str(folder)}, answer_of(model))


FUNCTIONS, CODE = "functions", "PyTorch, code and weights"
LOAD = "stmg.VideoSegmenter(function)"

ROWS = (
    Row("logits (C, H, W)", FUNCTIONS, LOAD, ("5 classes", "logits at full size"), partial(of_classes, logits)),
    Row(
        "logits (1, C, H, W), a tensor",
        FUNCTIONS,
        LOAD,
        ("5 classes", "logits at full size"),
        partial(of_classes, batch_of_logits),
    ),
    Row(
        "logits (H, W, C)",
        FUNCTIONS,
        LOAD,
        ("5 classes", "logits at full size"),
        partial(of_classes, logits_channels_last),
    ),
    Row(
        "probabilities (C, H, W)",
        FUNCTIONS,
        LOAD,
        ("5 classes", "logits at full size"),
        partial(of_classes, probabilities),
    ),
    Row("labels (H, W), int64", FUNCTIONS, LOAD, ("labels",), partial(of_classes, labels)),
    Row("labels (H, W), uint8", FUNCTIONS, LOAD, ("labels",), partial(of_classes, labels_as_bytes)),
    Row("bool mask (H, W)", FUNCTIONS, LOAD, ("foreground",), partial(of_foreground, mask)),
    Row("probability (1, H, W)", FUNCTIONS, LOAD, ("foreground", "probability"), partial(of_foreground, probability)),
    Row("logit (1, H, W)", FUNCTIONS, LOAD, ("foreground", "logits"), partial(of_foreground, mask_logits)),
    Row(
        "function in nets.py, weights in a .pth",
        CODE,
        'stmg.load(folder + "/nets.py:build", weights=folder + "/net.pth")',
        ("5 classes", "logits at full size", "ImageNet normalization (assumed)"),
        nets_py,
    ),
)
