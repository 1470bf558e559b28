"""A row of the table of networks: how one is built and loaded, what is understood, and its own post-processing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

import stmg

Image = NDArray[np.uint8]
Scores = NDArray[np.float32]

SIZE = (64, 96)
NAMES = ("road", "building", "car", "person", "tree")

IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
HALF = ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
FROM_0_TO_1 = ((0.0, 0.0, 0.0), (1.0, 1.0, 1.0))


class Answer(NamedTuple):
    """What a network says of an image, by its own post-processing and nothing of stmg's."""

    labels: NDArray[np.uint8]
    """(H, W)."""
    scores: Scores | None = None
    """(C, H, W), which the labels are the best of; (H, W) of a network for foreground: how far it is from undecided."""


class Network(NamedTuple):
    """A network with random weights."""

    names: Mapping[str, object]
    """What the code that loads it calls by name."""
    answer: Callable[[Image], Answer]


@dataclass(frozen=True)
class Row:
    """A network of the table.

    build: makes it, and in the folder it is given the files that are loaded.
    load: the code that loads it.
    understood: what `describe` says of it, in parts.
    needs: modules without which it cannot be built, beside those that the tests have.
    size: (H, W) of the frames.
    """

    name: str
    family: str
    load: str
    understood: tuple[str, ...]
    build: Callable[[Path], Network]
    needs: tuple[str, ...] = ()
    size: tuple[int, int] = SIZE

    def segmenter(self, network: Network) -> stmg.VideoSegmenter:
        """It, loaded by the code that the table shows."""
        loaded: stmg.VideoSegmenter = eval(self.load, {"stmg": stmg, **network.names})
        return loaded


def build_randomly(make: Callable[[], nn.Module], seed: int = 0, gain: float = 1.5) -> nn.Module:
    """A network whose weights are drawn by their names alone, so large that its labels differ from place to place."""
    model = make()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            draws = torch.randn(parameter.shape, generator=torch.Generator().manual_seed(crc32(name.encode()) + seed))
            if parameter.dim() > 1:
                parameter.copy_(draws * gain / parameter[0].numel() ** 0.5)
            else:
                parameter.copy_(0.1 * draws + (not name.endswith("bias")))
        for name, buffer in model.named_buffers():
            if name.endswith("running_mean"):
                buffer.copy_(torch.linspace(-0.2, 0.2, len(buffer)))
            elif name.endswith("running_var"):
                buffer.copy_(torch.linspace(1.5, 0.5, len(buffer)))
    return model.eval()


def to_tensor(image: Image, normalization: tuple[Any, Any] = IMAGENET) -> Tensor:
    """The image (1, 3, H, W) as a network wants it."""
    mean, std = (torch.tensor(values).view(1, 3, 1, 1) for values in normalization)
    pixels = torch.from_numpy(np.ascontiguousarray(image)).permute(2, 0, 1)[None].float() / 255
    return (pixels - mean) / std


@torch.no_grad()
def upsample(logits: Tensor, size: tuple[int, int]) -> Scores:
    """Logits (1, C, h, w) as (C, H, W), the way every framework does it."""
    return F.interpolate(logits, size=size, mode="bilinear", align_corners=False)[0].numpy()


def best_of(scores: Scores) -> Answer:
    return Answer(scores.argmax(0).astype(np.uint8), scores)


def above_half(probability: Scores) -> Answer:
    return Answer((probability > 0.5).astype(np.uint8), np.abs(probability - 0.5))


def answer_of(
    model: nn.Module, logits: Callable[[Any], Tensor] = lambda out: out, normalization: tuple[Any, Any] = IMAGENET
) -> Callable[[Image], Answer]:
    """The best class of each pixel of upsampled logits; `logits` finds them in what the network returns."""

    @torch.no_grad()
    def answer(image: Image) -> Answer:
        return best_of(upsample(logits(model(to_tensor(image, normalization))), image.shape[:2]))

    return answer
