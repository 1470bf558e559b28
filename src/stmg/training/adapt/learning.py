"""How a corrector learns: its size, its loss, its rate."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from stmg.errors import SettingsError
from stmg.networks.corrector import SHAPES, Corrector, Shape
from stmg.runtimes.torch_corrector import count_correction

WRONG_WEIGHT = 3.0  # how much more a cell counts where the warped labels are wrong, or next to it
ENCODER_RATE = 0.25  # of the learning rate, for what starts from ImageNet
WARM_UP = 0.1  # of the steps
GAIN, TINT, SHIFT = 0.25, 0.08, 20.0  # how far colors are changed: contrast, each channel of it, brightness in levels
UNCOUNTED = Shape(32, 5, 1)  # of the corrector of a network whose cost is not known


def correction_loss(
    module: Corrector, image: Tensor, before: Tensor, warped: Tensor, teacher: Tensor
) -> tuple[Tensor, Tensor]:
    """How far corrected logits are from the teacher's, and the share of cells whose best class is still another."""
    wrong = (warped.argmax(1) != teacher.argmax(1)).float()
    weight = 1 + WRONG_WEIGHT * F.max_pool2d(wrong[:, None], 3, 1, 1)[:, 0]
    logits, _ = module(image, before, warped)
    divergence = F.kl_div(logits.log_softmax(1), teacher.softmax(1), reduction="none").sum(1)
    left = (logits.argmax(1) != teacher.argmax(1)).float().mean()
    return (weight * divergence).mean(), left


def vary_colors(image: Tensor, before: Tensor, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
    """Images (N, H, W, 3) of bytes in other colors, as another hour or camera would show them; both of a pair alike.

    What a network says of them hardly changes, and a few hundred frames look like many more.
    """
    number = len(image)
    gain = 1 + rng.uniform(-GAIN, GAIN, (number, 1, 1, 1)) + rng.uniform(-TINT, TINT, (number, 1, 1, 3))
    shift = 128 * (1 - gain) + rng.uniform(-SHIFT, SHIFT, (number, 1, 1, 1))
    factor, offset = (torch.from_numpy(values).to(image.device, torch.float32) for values in (gain, shift))
    changed, changed_before = ((each.float() * factor + offset).clamp(0, 255) for each in (image, before))
    return changed, changed_before


def make_corrector(num_classes: int, macs: float | None, size: tuple[int, int]) -> Corrector:
    """One that starts from ImageNet and costs at most `macs` at a frame size, where that is known."""
    corrector = Corrector(num_classes, UNCOUNTED if macs is None else fit_shape(macs, num_classes, size))
    corrector.start_from_imagenet()
    return corrector


def check_start(start: Corrector, num_classes: int, macs: float | None, size: tuple[int, int]) -> Corrector:
    """A corrector that training is to go on from, if it is for so many classes and costs at most `macs`."""
    if start.num_classes != num_classes:
        raise SettingsError(
            f"the corrector to go on from is for {start.num_classes} classes; the network has {num_classes}"
        )
    own = count_correction(start, size)
    if macs is not None and own > macs:
        raise SettingsError(
            f"the corrector to go on from takes {own / 1e9:.2f} GMACs per frame, and cost allows {macs / 1e9:.2f}; "
            "allow more"
        )
    return start


def fit_shape(macs: float, num_classes: int, size: tuple[int, int]) -> Shape:
    """The largest shape that costs at most `macs` at a frame size; the smallest if none does."""
    with torch.device("meta"):  # shapes alone
        fitting = [shape for shape in SHAPES if count_correction(Corrector(num_classes, shape), size) <= macs]
    return fitting[-1] if fitting else SHAPES[0]


def group_parameters(module: Corrector) -> list[dict[str, object]]:
    """With the share of the learning rate that each has."""
    encoder = list(module.encoder.parameters())
    known = set(map(id, encoder))
    rest = [parameter for parameter in module.parameters() if id(parameter) not in known]
    return [{"params": encoder, "share": ENCODER_RATE}, {"params": rest, "share": 1.0}]


def one_cycle(part: float) -> float:
    """Share of the learning rate after a part of the steps: a rise, then half a cosine."""
    if part < WARM_UP:
        return 0.04 + 0.96 * part / WARM_UP
    return max(1e-3, 0.5 + 0.5 * math.cos(math.pi * (part - WARM_UP) / (1 - WARM_UP)))
