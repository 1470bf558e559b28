"""Difference of an exported network from its original, both run on the same frames."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from stmg.errors import SettingsError
from stmg.runtimes.exported import ExportedRuntime
from stmg.runtimes.torch import TorchRuntime
from stmg.streaming.masks import Masks
from stmg.video.frames import Image

MAX_ERROR = 1e-3  # relative to the largest value; rounding stays below this
MAX_LABELS = 0.01  # share of the labels; rounding may decide between two nearly equal classes


class Difference(NamedTuple):
    """The largest differences over all frames."""

    logits: float
    """Difference of class logits, relative to the largest."""
    features: float
    """Difference of features, relative to the largest."""
    labels: float
    """Share of the pixels with another label."""
    masks: float
    """Difference of spatial masks."""

    @property
    def is_rounding(self) -> bool:
        """True if rounding explains the difference."""
        return max(self.logits, self.features, self.masks) <= MAX_ERROR and self.labels <= MAX_LABELS


def compare_export(runtime: TorchRuntime, exported: ExportedRuntime, frames: Sequence[Image]) -> Difference:
    """Run PyTorch and an exported network on the same frames: whole frames, partial frames and masks.

    Nothing is warped, because warping is not part of the graphs, and less exact outside PyTorch.
    """
    if not frames:
        raise SettingsError("there are no frames to compare an export on")
    scale, blocks = exported.manifest.partial_scale, exported.fixed_blocks
    logits, features, labels, masks = [0.0], [0.0], [0.0], [0.0]
    encoded: tuple[Tensor, NDArray[np.float32]] | None = None
    for frame in frames:
        mine, other = runtime.prepare(frame), exported.prepare(frame)
        full = runtime.full(mine), exported.full(other)
        outputs = [full]
        if blocks is not None:
            half = Masks(blocks, np.full((4, 4), 0.5, np.float32))
            ours = runtime.partial(mine, half, full[0].features, None, scale)
            outputs.append((ours, exported.partial(other, half, full[1].features, None, scale)))
        size = (frame.shape[0], frame.shape[1])
        for ours, theirs in outputs:
            logits.append(_relative(ours.logits[0].numpy(), theirs.logits))
            features += [_relative(x[0].numpy(), y) for x, y in zip(ours.features, theirs.features, strict=True)]
            differs = runtime.labels(ours.logits, size) != exported.labels(theirs.logits, size)
            labels.append(float(differs.mean()))
        if exported.has_mask_generator:
            now = runtime.encode(mine), exported.encode(other)
            if encoded is not None:
                changed = runtime.compare(encoded[0], now[0], None).changed
                masks.append(_finite(np.abs(changed - exported.compare(encoded[1], now[1], None).changed).max()))
            encoded = now
    return Difference(max(logits), max(features), max(labels), max(masks))


def _relative(one: NDArray[np.float32], two: NDArray[np.float32]) -> float:
    with np.errstate(invalid="ignore"):  # differences of infinities
        return _finite(np.abs(one - two).max() / max(1e-6, np.abs(one).max()))


def _finite(difference: np.floating[Any]) -> float:
    """The difference; infinity if it is NaN, which `max` would ignore."""
    return float(difference) if np.isfinite(difference) else math.inf
