"""A corrector in PyTorch, on any device and at any frame size."""

from __future__ import annotations

import copy

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from stmg.gating.measure import count_macs, count_parameters
from stmg.gating.optimize import fold_batch_norm
from stmg.networks.corrector import Corrector
from stmg.streaming.correction import GRID, view_size
from stmg.streaming.cost import Cost
from stmg.streaming.flow import Map
from stmg.video.frames import Image

EXAMPLE = (64, 96)  # frame size on which folded batch-norms are compared
MAX_SIZES = 16  # whose cost is remembered: a stream that keeps changing its size must not fill the memory


class TorchCorrector:
    """Runs a copy of a corrector, its batch-norms folded.

    between: True if it also corrects frames between two computed ones.
    """

    def __init__(self, module: Corrector, device: torch.device, *, between: bool = True) -> None:
        self.module, self.device, self.between = module, device, between
        self._running = copy.deepcopy(module).to(device).eval().requires_grad_(False)
        _fold(self._running, device)
        self._running.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self._costs: dict[tuple[int, int], Cost] = {}

    @property
    def num_classes(self) -> int:
        return self.module.num_classes

    @torch.inference_mode()
    def correct(self, image: Image, before: Image, logits: NDArray[np.float32]) -> tuple[NDArray[np.float32], Map]:
        pictures = [torch.from_numpy(np.ascontiguousarray(each)).to(self.device)[None] for each in (image, before)]
        warped = torch.from_numpy(logits).to(self.device).permute(2, 0, 1)[None]
        new, mask = self._running(*pictures, warped)
        return new[0].permute(1, 2, 0).contiguous().cpu().numpy(), mask[0, 0].cpu().numpy()

    def cost(self, size: tuple[int, int]) -> Cost:
        cost = self._costs.get(size)
        if cost is None:
            cost = Cost(count_correction(self.module, size), 0, count_parameters(self.module))
            if len(self._costs) >= MAX_SIZES:
                self._costs.clear()
            self._costs[size] = cost
        return cost


def count_correction(module: Corrector, size: tuple[int, int]) -> int:
    """Multiply-accumulates of a corrector on a frame of (H, W)."""
    abstract = copy.deepcopy(module).to("meta").eval()
    inputs = example_inputs(module.num_classes, size, torch.device("meta"))
    return count_macs(lambda: abstract(*inputs))


def example_inputs(num_classes: int, size: tuple[int, int], device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """Make example inputs of a corrector for a frame of (H, W): two images at half size, logits at an eighth."""
    height, width = size
    image, before = (torch.zeros(1, *view_size(size), 3, dtype=torch.uint8, device=device) for _ in range(2))
    return image, before, torch.zeros(1, num_classes, max(1, height // GRID), max(1, width // GRID), device=device)


def _fold(module: Corrector, device: torch.device) -> None:
    image, before, warped = example_inputs(module.num_classes, EXAMPLE, device)
    fold_batch_norm(_OfImage(module, before, warped), torch.randint_like(image, 255))


class _OfImage(nn.Module):
    """A corrector as a function of the image alone."""

    def __init__(self, corrector: Corrector, before: Tensor, warped: Tensor) -> None:
        super().__init__()
        self.corrector, self.before, self.warped = corrector, before, warped

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor]:
        logits, mask = self.corrector(image, self.before, self.warped)
        return logits, mask
