"""A black box: any callable from frame to logits, carried and refreshed without knowing what is inside."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stmg.errors import ModelError, SettingsError
from stmg.runtimes.arrays import fuse_logits
from stmg.runtimes.labels import Foreground
from stmg.streaming.cost import Cost
from stmg.streaming.flow import Flow, Map
from stmg.streaming.masks import Masks, partial_size
from stmg.streaming.runtime import Output
from stmg.streaming.schedulers import Level
from stmg.video.frames import Image, resize_image
from stmg.video.labels import IGNORE, Labels, resize_labels


class CallableRuntime:
    """`function` takes an RGB image (H, W, 3), uint8, and gives logits (C, h, w) or (1, C, h, w), or labels (H, W).

    activation: whether a function of one channel gives logits or probability; if None, its values tell.
    threshold: the probability above which a pixel is foreground, 0.5 if None; for functions of one channel.
    """

    num_classes: int | None = None
    num_blocks = 0
    one_at_a_time = True
    """Offline mode computes several frames at once; a function that knows nothing of threads is spared them."""
    has_mask_generator = False
    notes: tuple[str, ...] = ("a black box: frames are computed whole or carried",)

    def __init__(
        self, function: Callable[[Image], Any], activation: str | None = None, threshold: float | None = None
    ) -> None:
        self.function, self._lock = function, threading.Lock()
        self.foreground = Foreground(activation, threshold)

    @property
    def description(self) -> str:
        return f"a function, {getattr(self.function, '__qualname__', type(self.function).__name__)}"

    @property
    def input_size(self) -> tuple[int, int] | None:
        return None

    @property
    def threshold(self) -> float:
        return self.foreground.threshold

    def expect_partial(self) -> None:
        """There is nothing to get ready."""

    def exact_patterns(self) -> AbstractContextManager[None]:
        return nullcontext()

    def for_throughput(self) -> CallableRuntime:
        return self

    def begin_worker(self) -> None:
        """What a function does with its threads is its own."""

    def prepare(self, image: Image) -> Image:
        return image

    def encode(self, prepared: Image) -> None:
        raise NotImplementedError("a black box has no mask generator")

    def compare(self, before: Any, now: Any, flow: Flow | None) -> Masks:
        raise NotImplementedError("a black box has no mask generator")

    def full(self, prepared: Image) -> Output:
        logits = self._call(prepared)
        return Output(logits if logits.ndim == 3 else None, logits)

    def partial(
        self, prepared: Image, masks: Masks, previous: NDArray[np.float32] | None, flow: Flow | None, scale: float
    ) -> Output:
        """The function on a smaller image, blended with the last logits where nothing changed."""
        if previous is None:
            raise SettingsError(
                "this function gives labels, not logits, so there is nothing to blend on a partial frame; "
                "choose a scheduler without partial frames"
            )
        smaller = resize_image(prepared, partial_size((prepared.shape[0], prepared.shape[1]), scale))
        logits = self.fuse(self._call(smaller), previous, flow, 1 - masks.changed)
        return Output(logits, logits)

    def fuse(self, now: NDArray[Any], before: NDArray[Any], flow: Flow | None, share: Map) -> NDArray[Any]:
        if before.ndim == 2 or now.ndim == 2:  # labels cannot be averaged
            return now
        return fuse_logits(now, before, flow, share)

    def labels(self, logits: NDArray[Any], size: tuple[int, int]) -> Labels:
        if logits.ndim == 2:
            return resize_labels(logits.astype(np.uint8), size)
        return self.foreground.labels(logits, size)

    def probability(self, logits: NDArray[Any], size: tuple[int, int]) -> Map | None:
        return self.foreground.probability(logits, size) if logits.ndim == 3 else None

    def logits_array(self, logits: NDArray[Any]) -> NDArray[np.float32] | None:
        return np.ascontiguousarray(logits.transpose(1, 2, 0), np.float32) if logits.ndim == 3 else None

    def cost(
        self, size: tuple[int, int], level: Level, keep: tuple[bool, ...], scale: float, masked: bool
    ) -> Cost | None:
        return Cost() if level is Level.CARRY else None

    def _call(self, image: Image) -> NDArray[Any]:
        with self._lock if self.one_at_a_time else nullcontext():
            output = self.function(image)
            if hasattr(output, "detach"):
                output = output.detach().cpu().numpy()
            # The function may write its next output over this one.
            logits = np.array(output) if self.one_at_a_time else np.asarray(output)
        if logits.ndim == 4 and len(logits) == 1:
            logits = logits[0]
        if logits.ndim == 2 and np.issubdtype(logits.dtype, np.integer):
            if logits.size and not 0 <= logits.min() <= logits.max() <= IGNORE:
                raise ModelError(f"labels are bytes; the function gave {logits.min()} to {logits.max()}")
            self.foreground.check_channels(0)
            return logits
        if logits.ndim != 3 or not np.issubdtype(logits.dtype, np.floating):
            raise ModelError(
                "a black box returns logits (C, h, w) as floats or labels (H, W) as integers; "
                f"got {logits.dtype} of shape {logits.shape}"
            )
        self.foreground.check_channels(len(logits))
        return logits.astype(np.float32, copy=False)
