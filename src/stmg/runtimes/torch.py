"""PyTorch: an accelerated network on any device."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from stmg.acceleration.accelerate import AcceleratedNetwork, Computed, accelerate, dtype_of
from stmg.acceleration.aggregation import aggregate
from stmg.acceleration.cost import synchronise
from stmg.acceleration.folding import fold_batch_norm
from stmg.acceleration.whole import compiled
from stmg.card import IMAGENET_MEAN, IMAGENET_STD
from stmg.cost import Costs
from stmg.frames import Image
from stmg.motion import Field, move
from stmg.runtimes import Output
from stmg.runtimes.labels import MOST_CLASSES, labels_of
from stmg.scheduler import Level
from stmg.state import Cost, Labels, Map, Masks

PRECISIONS = {"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}


class TorchRuntime:
    """Runs a copy of the network with its batch-norms folded, channels last.

    precision: fp32, or bf16 or fp16 by autocast.
    mean, std: what the network was trained with, for RGB values from 0 to 1.
    optimise: off leaves the network as it is; its results are then the untouched network's bit for bit.
    """

    def __init__(
        self,
        network: nn.Module,
        *,
        device: str | torch.device | None = None,
        precision: str = "fp32",
        mean: Sequence[float] = IMAGENET_MEAN,
        std: Sequence[float] = IMAGENET_STD,
        optimise: bool = True,
    ) -> None:
        if precision not in PRECISIONS:
            raise ValueError(f"no precision is called {precision!r}; there are {', '.join(PRECISIONS)}")
        self.device = as_device(device)
        if not isinstance(network, AcceleratedNetwork):
            example = torch.zeros(1, 3, 128, 128, dtype=dtype_of(network))
            network = accelerate(network, example.to(_device_of(network)), timed=False)
        _check_finite(network)
        self.network = copy.deepcopy(network).to(self.device).eval().requires_grad_(False)
        if self.network.num_classes > MOST_CLASSES:
            raise ValueError(f"labels are bytes: at most {MOST_CLASSES} classes, not {self.network.num_classes}")
        self.optimise = optimise
        if optimise:
            self._fold_and_lay_out()
        self.precision = precision
        self.mean = torch.tensor(mean, device=self.device).reshape(1, 3, 1, 1) * 255
        self.scale = 1 / (torch.tensor(std, device=self.device).reshape(1, 3, 1, 1) * 255)
        self._costs: dict[tuple[int, int], Costs] = {}
        self._full: Callable[[Tensor], Computed] = self.network.full
        self.compiled = False

    def _fold_and_lay_out(self) -> None:
        size, kind = self.network.example_size, self.network.dtype
        example = torch.rand(1, 3, *size, device=self.device).to(kind)
        parts = [self.network.network, self.network.second]
        if self.network.mask_generator is not None:
            parts.append(self.network.mask_generator.encoder)
        for part in parts:
            if part is not None and not isinstance(part, torch.jit.ScriptModule):
                fold_batch_norm(part, example)
        for module in self.network.modules():
            if isinstance(module, nn.Conv2d):
                module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    @property
    def num_blocks(self) -> int:
        return len(self.network.blocks)

    @property
    def notes(self) -> tuple[str, ...]:
        return self.network.notes

    @property
    def has_mask_generator(self) -> bool:
        return self.network.mask_generator is not None

    def compile(self) -> None:
        """Have torch.compile put key frames together; the first one of each size then waits for its compiler."""
        self._full, self.compiled = compiled(self.network), True

    def expect_partial(self) -> None:
        """Nothing has to be got ready."""

    @torch.inference_mode()
    def prepare(self, image: Image) -> Tensor:
        # (H, W, 3) in memory is (1, 3, H, W) channels last: no copy is made to permute it.
        pixels = torch.from_numpy(image).to(self.device, non_blocking=True)[None].permute(0, 3, 1, 2)
        normalised = ((pixels - self.mean) * self.scale).to(self.network.dtype)
        return normalised if self.optimise else normalised.contiguous()

    @torch.inference_mode()
    def encode(self, prepared: Tensor) -> Tensor:
        assert self.network.mask_generator is not None
        with self._autocast():
            return self.network.mask_generator.encode(prepared)

    @torch.inference_mode()
    def compare(self, before: Tensor, now: Tensor, path: Field | None) -> Masks:
        assert self.network.mask_generator is not None
        masks = self.network.mask_generator(move(before, path).float(), now.float())
        keep = tuple(bool(value) for value in masks.keep[0].tolist())
        return Masks(keep, masks.changed[0, 0].cpu().numpy())

    @torch.inference_mode()
    def full(self, prepared: Tensor) -> Output:
        with self._autocast():
            return _output(self._full(prepared))

    @torch.inference_mode()
    def partial(
        self, prepared: Tensor, masks: Masks, previous: list[Tensor], path: Field | None, scale: float
    ) -> Output:
        changed = torch.from_numpy(np.ascontiguousarray(masks.changed)).to(self.device)[None, None]

        def blend(current: list[Tensor]) -> list[Tensor]:
            return aggregate(current, [move(before, path) for before in previous], changed)

        image = prepared
        if scale != 1:
            image = F.interpolate(prepared, scale_factor=scale, mode="bilinear", align_corners=False)
        with self._autocast():
            return _output(self.network.partial(image, masks.keep, blend))

    @torch.inference_mode()
    def fused(self, now: Tensor, before: Tensor, path: Field | None, share: Map) -> Tensor:
        fresh = torch.from_numpy(1 - share).to(self.device)[None, None]
        return aggregate([now], [move(before, path)], fresh)[0]

    @torch.inference_mode()
    def labels(self, scores: Tensor, size: tuple[int, int]) -> Labels:
        if self.device.type == "cpu":
            return labels_of(scores[0].numpy(), size)
        full = F.interpolate(scores, size=size, mode="bilinear", align_corners=False)
        labels = (full.argmax(1) if full.shape[1] > 1 else full[:, 0] > 0)[0].to(torch.uint8)
        synchronise(self.device)
        found: Labels = labels.cpu().numpy()
        return found

    def cost(self, size: tuple[int, int], level: Level, keep: tuple[bool, ...], scale: float, masked: bool) -> Cost:
        """Counted once per frame size, on a pass of its own."""
        if size not in self._costs:
            if len(self._costs) > 15:  # a stream that keeps changing its size must not fill the memory
                self._costs.clear()
            blank = torch.zeros(1, 3, *size, device=self.device, dtype=self.network.dtype)
            self._costs[size] = self.network.costs(blank)
        return self._costs[size].of_frame(level, keep, scale, masked)

    def _autocast(self) -> AbstractContextManager[object]:
        kind = PRECISIONS[self.precision]
        return nullcontext() if kind is None else torch.autocast(self.device.type, dtype=kind)


def _output(computed: Computed) -> Output:
    return Output(computed.features, computed.logits.float())


def as_device(name: str | torch.device | None) -> torch.device:
    """The device of that name, if it is there; a GPU where there is one, if no name is given."""
    if name is None:
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError):
        raise ValueError(f"there is no device {str(name)!r} here; cpu always works") from None
    return device


def _device_of(network: nn.Module) -> torch.device:
    return next((parameter.device for parameter in network.parameters()), torch.device("cpu"))


def _check_finite(network: nn.Module) -> None:
    for name, value in network.state_dict().items():
        if value.is_floating_point() and not bool(torch.isfinite(value).all()):
            raise ValueError(f"the network's weights are not finite, first in {name}: load or train it again")
