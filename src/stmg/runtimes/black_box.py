"""A black box: any callable from frame to logits, carried and refreshed without knowing what is inside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from stmg.frames import Image
from stmg.motion import Field
from stmg.runtimes import Output
from stmg.runtimes.arrays import fused
from stmg.runtimes.labels import labels_of
from stmg.scheduler import Level
from stmg.state import Cost, Labels, Map, Masks


class BlackBoxRuntime:
    """`function` takes an RGB image (H, W, 3), uint8, and gives logits (C, h, w) or (1, C, h, w), or labels (H, W)."""

    num_blocks = 0
    has_mask_generator = False
    notes = ("a black box: frames are computed whole, at a smaller scale, or carried",)

    def __init__(self, function: Callable[[Image], Any]) -> None:
        self.function = function

    def expect_partial(self) -> None:
        """Nothing has to be got ready."""

    def prepare(self, image: Image) -> Image:
        return image

    def encode(self, prepared: Image) -> None:
        raise NotImplementedError("a black box has no mask generator")

    def compare(self, before: Any, now: Any, path: Field | None) -> Masks:
        raise NotImplementedError("a black box has no mask generator")

    def full(self, prepared: Image) -> Output:
        scores = self._scores(prepared)
        return Output(scores if scores.ndim == 3 else None, scores)

    def partial(self, prepared: Image, masks: Masks, previous: Any, path: Field | None, scale: float) -> Output:
        """The function on a smaller image, blended with the last scores where nothing changed."""
        if previous is None:
            raise ValueError("this function gives labels, not logits, so there is nothing to blend on a partial frame")
        smaller: Any = cv2.resize(prepared, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)
        scores = self.fused(self._scores(smaller), previous, path, 1 - masks.changed)
        return Output(scores, scores)

    def fused(self, now: Any, before: Any, path: Field | None, share: Map) -> Any:
        if before.ndim == 2 or now.ndim == 2:  # labels cannot be averaged
            return now
        return fused(now, before, path, share)

    def labels(self, scores: Any, size: tuple[int, int]) -> Labels:
        if scores.ndim == 3:
            return labels_of(scores, size)
        found: Any = cv2.resize(scores.astype(np.uint8), size[::-1], interpolation=cv2.INTER_NEAREST)
        return found  # type: ignore[no-any-return]

    def cost(
        self, size: tuple[int, int], level: Level, keep: tuple[bool, ...], scale: float, masked: bool
    ) -> Cost | None:
        return Cost() if level is Level.CARRY else None

    def _scores(self, image: Image) -> NDArray[Any]:
        output = self.function(image)
        if hasattr(output, "detach"):
            output = output.detach().cpu().numpy()
        scores = np.asarray(output)
        if scores.ndim == 4 and len(scores) == 1:
            scores = scores[0]
        if scores.ndim == 2 and np.issubdtype(scores.dtype, np.integer):
            if scores.size and not 0 <= scores.min() <= scores.max() <= 255:
                raise ValueError(f"labels are bytes; the function gave {scores.min()} to {scores.max()}")
            return scores
        if scores.ndim != 3 or not np.issubdtype(scores.dtype, np.floating):
            raise ValueError(
                "a black box returns logits (C, h, w) as floats or labels (H, W) as integers; "
                f"got {scores.dtype} of shape {scores.shape}"
            )
        return scores.astype(np.float32, copy=False)
