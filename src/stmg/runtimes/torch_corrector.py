"""A corrector in PyTorch, on any device and at any frame size."""

from __future__ import annotations

import copy

import numpy as np
import torch
from numpy.typing import NDArray

from stmg.gating.counting import count_parameters
from stmg.networks.corrector import Corrector, count_macs
from stmg.streaming.cost import Cost
from stmg.streaming.flow import Map
from stmg.video.frames import Image


class TorchCorrector:
    """Runs a copy of a corrector.

    between: whether it is for frames between two computed ones too.
    """

    def __init__(self, module: Corrector, device: torch.device, *, between: bool = True) -> None:
        self.device, self.between = device, between
        self.module = copy.deepcopy(module).to(device).eval().requires_grad_(False)
        self._params = count_parameters(self.module)

    @property
    def num_classes(self) -> int:
        return self.module.num_classes

    @torch.inference_mode()
    def correct(self, image: Image, before: Image, logits: NDArray[np.float32]) -> tuple[NDArray[np.float32], Map]:
        pictures = [torch.from_numpy(np.ascontiguousarray(each)).to(self.device)[None] for each in (image, before)]
        warped = torch.from_numpy(logits).to(self.device).permute(2, 0, 1)[None]
        new, mask = self.module(*pictures, warped)
        return new[0].permute(1, 2, 0).contiguous().cpu().numpy(), mask[0, 0].cpu().numpy()

    def cost(self, size: tuple[int, int]) -> Cost:
        return Cost(count_macs(self.module.width, self.num_classes, size), 0, self._params)
