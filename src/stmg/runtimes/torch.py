"""PyTorch: an accelerated network on any device."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from threading import Lock
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from stmg.errors import ModelError, SettingsError
from stmg.gating.accelerate import AcceleratedNetwork, NetworkOutput, accelerate_at, copy_where_written_on
from stmg.gating.aggregation import NormalizeImage, aggregate, downscale, warp_tensor
from stmg.gating.optimize import compile_full, fold_batch_norm
from stmg.runtimes.input_range import FirstLayer, find_first_layer
from stmg.runtimes.threads import share_torch_threads
from stmg.streaming.cost import Cost, NetworkCost
from stmg.streaming.flow import Flow, Map
from stmg.streaming.logits import Foreground, check_finite
from stmg.streaming.masks import Masks, partial_area
from stmg.streaming.runtime import Output, Runtime
from stmg.streaming.schedulers import Level
from stmg.video.frames import Image
from stmg.video.labels import MAX_CLASSES, Labels
from stmg.video.normalization import IMAGENET_MEAN, IMAGENET_STD, NORMALIZATIONS, Normalization

PRECISIONS = {"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}


class TorchRuntime(Runtime):
    """Runs a network with its batch-norms folded, channels last.

    precision: fp32, or bf16 or fp16 by autocast.
    mean, std: what the network was trained with, for RGB values from 0 to 1; ImageNet's are assumed if not given.
    activation: logits or probability, for a network of one channel; if None, its values on a test image tell.
    threshold: the probability above which a pixel is foreground, 0.5 if None; for networks of one channel.
    optimize: off leaves the network as it is; its results are then the untouched network's bit for bit.
    size: (H, W) of images that a plain module takes, where it does not take any.
    restore: loads the network again as it was given, to save or export it. With it the network itself is optimized, and
        no second copy of its weights stays in memory; without it what is given is left alone, and a copy runs.
    """

    num_classes: int
    normalization: Normalization

    def __init__(
        self,
        network: nn.Module,
        *,
        device: str | torch.device | None = None,
        precision: str = "fp32",
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
        activation: str | None = None,
        threshold: float | None = None,
        optimize: bool = True,
        restore: Callable[[], AcceleratedNetwork] | None = None,
        size: tuple[int, int] | None = None,
    ) -> None:
        if precision not in PRECISIONS:
            raise SettingsError(f"no precision is called {precision!r}; there are {', '.join(PRECISIONS)}")
        self.device = find_device(device)
        self.is_plain = not isinstance(network, AcceleratedNetwork)
        """True if a plain module was given, whose intended use, such as its input size, is unknown."""
        if not isinstance(network, AcceleratedNetwork):
            network = accelerate_at(network, (128, 128), size)
        _check_finite(network)
        original = network
        self._original = restore or (lambda: original)
        with torch.no_grad():  # else the weights of a copied ScriptModule are results of a computation
            running = copy.deepcopy(original) if restore is None else original
        self.network = running.to(self.device).eval().requires_grad_(False)
        if self.network.num_classes > MAX_CLASSES:
            raise ModelError(f"labels are bytes: at most {MAX_CLASSES} classes, not {self.network.num_classes}")
        self.foreground = Foreground(activation, threshold)
        self.foreground.check_channels(self.network.num_classes)
        self.num_classes = max(2, self.network.num_classes)
        self.input_size = self.network.input_size
        self.num_blocks = len(self.network.blocks)
        self.has_mask_generator = self.network.mask_generator is not None
        self.block_notes = self.network.notes
        self.one_at_a_time = _has_hooks(self.network.network)  # what hooks note is of one pass
        self._lock: AbstractContextManager[object] = Lock() if self.one_at_a_time else nullcontext()
        self.optimize = optimize
        self.normalization = Normalization(tuple(mean or IMAGENET_MEAN), tuple(std or IMAGENET_STD))
        self.assumes_normalization = mean is None and std is None
        self._first_layer = self._find_first_layer() if self.assumes_normalization else None
        if optimize:
            self._fold_and_use_channels_last()
        self.precision = precision
        self.normalize = NormalizeImage(self.normalization.mean, self.normalization.std).to(self.device)
        self._costs: dict[tuple[int, int], NetworkCost] = {}
        self._full: Callable[[Tensor], NetworkOutput] = self.network.full
        self.compiled = False
        if self.network.num_classes == 1:
            self.find_activation(self.network.example_size)

    def _fold_and_use_channels_last(self) -> None:
        example = torch.rand(1, 3, *self.network.example_size, device=self.device).to(self.network.dtype)
        parts = [self.network.network, self.network.second]
        if self.network.mask_generator is not None:
            parts.append(self.network.mask_generator.encoder)
        for part in parts:
            if part is not None and not isinstance(part, torch.jit.ScriptModule):
                fold_batch_norm(part, example)
        for module in self.network.modules():
            if isinstance(module, nn.Conv2d):
                module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        copy_where_written_on(self.network, example)  # a head may begin with what follows a batch-norm that is gone

    def _find_first_layer(self) -> FirstLayer | None:
        if isinstance(self.network.network, torch.jit.ScriptModule):
            return None
        example = torch.zeros(1, 3, *self.network.example_size, device=self.device, dtype=self.network.dtype)
        return find_first_layer(self.network.network, example)

    def check_input(self, image: Image) -> str | None:
        better = self._first_layer and self._first_layer.find_better(image, self.normalization)
        if not better:
            return None
        return (
            f"frames fit the network badly with {self.normalization}, which is assumed, and better with "
            f"{NORMALIZATIONS[better]}, as its first layer shows: state it with normalize={better!r}"
        )

    @property
    def name(self) -> str:
        network = self.network.network
        kind = str(getattr(network, "original_name", type(network).__name__))  # of what is scripted or wrapped
        return re.sub(r"(For(Semantic|Universal|Instance|Image)?Segmentation|Model)$", "", kind) or kind

    @property
    def input_text(self) -> str:
        text, is_bgr = super().input_text, getattr(self.network.network, "bgr", False)
        if not is_bgr:
            return text
        return text.replace("RGB", "BGR") if "RGB" in text else f"BGR, {text}"

    @property
    def description(self) -> str:
        compiled = ", compiled" if self.compiled else ""
        return (
            f"PyTorch {torch.__version__}, {self.device}, {self.precision}, {torch.get_num_threads()} threads{compiled}"
        )

    @property
    def original(self) -> AcceleratedNetwork:
        """The network as it was given, before it was optimized for running."""
        return self._original()

    def compile(self) -> None:
        """Compile key frames with torch.compile; the first one of each size then waits for its compiler."""
        self._full, self.compiled = compile_full(self.network), True
        self.one_at_a_time = True  # what it compiles has a lock

    def begin_worker(self, parts: int) -> None:
        if self.device.type == "cpu" and self.optimize:  # else results are the network's own, bit for bit
            share_torch_threads(parts)

    @torch.inference_mode()
    def prepare(self, image: Image) -> Tensor:
        # (H, W, 3) in memory is (1, 3, H, W) channels last: no copy is made to permute it.
        # PyTorch warns of an array that is read-only, as Pillow's are.
        image = super().prepare(image)
        pixels = torch.from_numpy(np.require(image, requirements="W")).to(self.device, non_blocking=True)[None]
        normalized: Tensor = self.normalize(pixels).to(self.network.dtype)
        return normalized if self.optimize else normalized.contiguous()

    @torch.inference_mode()
    def encode(self, prepared: Tensor) -> Tensor:
        assert self.network.mask_generator is not None
        with self._autocast():
            return self.network.mask_generator.encode(prepared)

    @torch.inference_mode()
    def compare(self, before: Tensor, now: Tensor, flow: Flow | None) -> Masks:
        assert self.network.mask_generator is not None
        masks = self.network.mask_generator(warp_tensor(before, flow).float(), now.float())
        keep = tuple(bool(value) for value in masks.keep[0].tolist())
        return Masks(keep, masks.changed[0, 0].cpu().numpy())

    @torch.inference_mode()
    def full(self, prepared: Tensor) -> Output:
        with self._lock, self._autocast():
            return _output(self._full(prepared))

    @torch.inference_mode()
    def partial(
        self, prepared: Tensor, masks: Masks, previous: list[Tensor], flow: Flow | None, scale: float
    ) -> Output:
        changed = torch.from_numpy(np.ascontiguousarray(masks.changed)).to(self.device)[None, None]

        def blend(current: list[Tensor]) -> list[Tensor]:
            return aggregate(current, [warp_tensor(before, flow) for before in previous], changed)

        with self._autocast():
            return _output(self.network.partial(downscale(prepared, scale), masks.keep, blend))

    @torch.inference_mode()
    def fuse(self, now: Tensor, before: Tensor, flow: Flow | None, share: Map) -> Tensor:
        fresh = torch.from_numpy(1 - share).to(self.device)[None, None]
        return aggregate([now], [warp_tensor(before, flow)], fresh)[0]

    def as_array(self, logits: Tensor) -> NDArray[Any]:
        array: NDArray[Any] = logits[0].cpu().numpy()
        return array

    def labels(self, logits: Tensor, size: tuple[int, int]) -> Labels:
        if self.device.type == "cpu" or logits.shape[1] == 1:
            return super().labels(logits, size)
        return _labels_on_device(logits, size)

    def probability(self, logits: Tensor, size: tuple[int, int]) -> Map | None:
        return super().probability(logits, size) if logits.shape[1] == 1 else None

    def cost(
        self, size: tuple[int, int], level: Level, keep: tuple[bool, ...], scale: float, masked: bool
    ) -> Cost | None:
        """Counted once per frame size, on a pass of its own."""
        size = self.input_size or size
        costs = self._costs.get(size)
        if costs is None:
            costs = self.network.costs(torch.zeros(1, 3, *size, device=self.device, dtype=self.network.dtype))
            if len(self._costs) > 15:  # a stream that keeps changing its size must not fill the memory
                self._costs.clear()
            self._costs[size] = costs
        return costs.of_frame(level, keep, partial_area(size, scale), masked)

    def _autocast(self) -> AbstractContextManager[object]:
        dtype = PRECISIONS[self.precision]
        return nullcontext() if dtype is None else torch.autocast(self.device.type, dtype=dtype)


def _output(output: NetworkOutput) -> Output:
    return Output(output.logits.float(), output.features)


@torch.inference_mode()
def _labels_on_device(logits: Tensor, size: tuple[int, int]) -> Labels:
    """The best class of each pixel, found where the logits are: fetching labels takes less than fetching logits."""
    full = F.interpolate(logits, size=size, mode="bilinear", align_corners=False)
    labels, is_finite = full.argmax(1)[0].to(torch.uint8), torch.isfinite(logits).all()
    array: Labels = labels.cpu().numpy()  # waits for the device
    check_finite(bool(is_finite))
    return array


def find_device(name: str | torch.device | None) -> torch.device:
    """The device of that name, if it is there; a GPU where there is one, if no name is given."""
    if name is None:
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise SettingsError(f"there is no device {str(name)!r} here; cpu always works") from error
    return device


def _check_finite(network: nn.Module) -> None:
    for name, value in network.state_dict().items():
        if value.is_floating_point() and not bool(torch.isfinite(value).all()):
            raise ModelError(f"the network's weights are not finite, first in {name}: load or train it again")


def _has_hooks(network: nn.Module) -> bool:
    """Whether a network has hooks of its author's. Those of transformers keep the passes of threads apart."""
    hooks = [hook for module in network.modules() for hook in module._forward_hooks.values()]
    return any(not str(getattr(hook, "__module__", "")).startswith("transformers.") for hook in hooks)
