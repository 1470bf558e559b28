"""Moving averages of weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor


def moving_average(decay: float) -> Callable[[Sequence[Tensor], Sequence[Tensor], Tensor | int], None]:
    """For torch's `AveragedModel`: a moving average that forgets faster while it is young."""

    @torch.no_grad()
    def update(average: Sequence[Tensor], current: Sequence[Tensor], count: Tensor | int) -> None:
        weight = min(decay, (1 + float(count)) / (10 + float(count)))
        for old, new in zip(average, current, strict=True):
            if old.is_floating_point():
                old.lerp_(new, 1 - weight)
            else:
                old.copy_(new)

    return update
