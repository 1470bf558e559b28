"""Any function from a frame to logits: computed whole, at a smaller scale, or carried, whatever is inside."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stmg.errors import SettingsError
from stmg.streaming.flow import Flow
from stmg.streaming.logits import Foreground, as_array, put_channels_first
from stmg.streaming.masks import Masks, partial_size
from stmg.streaming.runtime import Output, Runtime
from stmg.video.frames import Image, resize_image


class CallableRuntime(Runtime):
    """`function` takes an RGB image (H, W, 3), uint8, and gives logits (C, h, w), labels (H, W) or a mask of booleans.

    Logits may have a batch of one, and their channels last, which the size of the image shows.

    activation: logits or probability, for a function of one channel; if None, its values on a test image tell.
    threshold: the probability above which a pixel is foreground, 0.5 if None; for functions of one channel.
    """

    one_at_a_time = True
    """Offline mode computes several frames at once; a function that knows nothing of threads is spared them."""
    may_have_channels_last = True
    """True if that is to be found out; a graph file says it."""

    def __init__(
        self, function: Callable[[Image], Any], activation: str | None = None, threshold: float | None = None
    ) -> None:
        self.function, self._lock = function, threading.Lock()
        self.foreground = Foreground(activation, threshold)
        self.block_notes = ("a function has no blocks that can be skipped: frames are computed whole or carried",)

    @property
    def name(self) -> str:
        return getattr(self.function, "__qualname__", type(self.function).__name__)

    @property
    def description(self) -> str:
        return f"a function, {getattr(self.function, '__qualname__', type(self.function).__name__)}"

    def prepare(self, image: Image) -> Image:
        return image  # the function resizes it as it likes

    def full(self, prepared: Image) -> Output:
        logits = self._call(prepared)
        return Output(logits, logits if logits.ndim == 3 else None)

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

    def _call(self, image: Image) -> NDArray[Any]:
        with self._lock if self.one_at_a_time else nullcontext():
            logits = as_array(self.function(image))
            if self.may_have_channels_last:
                logits = put_channels_first(logits, (image.shape[0], image.shape[1]))
            if self.one_at_a_time:
                logits = logits.copy()  # the function may write its next output over this one
        self.foreground.check_channels(len(logits) if logits.ndim == 3 else 0)
        return logits
