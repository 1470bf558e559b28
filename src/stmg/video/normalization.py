"""Normalization: mean and std of the RGB values that a network expects."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from stmg.errors import SettingsError
from stmg.video.frames import Image

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


@dataclass(frozen=True)
class Normalization:
    """Mean and std of each channel, for RGB values from 0 to 1."""

    mean: tuple[float, ...] = IMAGENET_MEAN
    std: tuple[float, ...] = IMAGENET_STD

    def __post_init__(self) -> None:
        if len(self.mean) != 3 or len(self.std) != 3 or not all(value > 0 for value in self.std):
            raise SettingsError(
                f"a normalization is three means and three stds above 0; got mean={self.mean}, std={self.std}"
            )

    def apply(self, image: Image) -> NDArray[np.float32]:
        """Normalize an image (H, W, 3) of uint8. The version for PyTorch is `NormalizeImage`."""
        normalized: NDArray[np.float32] = (image - self._offset) * self._scale
        return normalized

    def __str__(self) -> str:
        names = {"imagenet": "ImageNet normalization", "none": "RGB from 0 to 1"}
        names |= {"half": "RGB from -1 to 1", "bytes": "RGB from 0 to 255"}
        known = next((names[name] for name, other in NORMALIZATIONS.items() if other.is_close(self)), None)
        mean, std = (",".join(f"{value:.3g}" for value in values) for values in (self.mean, self.std))
        return known or f"normalization {mean}/{std}"

    def is_close(self, other: Normalization) -> bool:
        """Whether it is the same but for rounding, by less than a step of the bytes."""
        return np.allclose(self.mean, other.mean, atol=4e-3) and np.allclose(self.std, other.std, rtol=5e-3)

    @cached_property
    def _offset(self) -> NDArray[np.float32]:
        return np.array(self.mean, np.float32) * 255

    @cached_property
    def _scale(self) -> NDArray[np.float32]:
        return np.reciprocal(np.array(self.std, np.float32) * 255)


NORMALIZATIONS: dict[str, Normalization] = {
    "imagenet": Normalization(),
    "none": Normalization((0.0,) * 3, (1.0,) * 3),
    "half": Normalization((0.5,) * 3, (0.5,) * 3),
    "bytes": Normalization((0.0,) * 3, (1 / 255,) * 3),
}


def parse_normalization(text: str) -> Normalization:
    """A normalization by name, or as `MEAN/STD` of each channel: `0.5,0.5,0.5/0.2,0.2,0.2`."""
    if text in NORMALIZATIONS:
        return NORMALIZATIONS[text]
    try:
        mean, std = (tuple(map(float, part.split(","))) for part in text.split("/"))
        return Normalization(mean, std)
    except ValueError:
        names = ", ".join(NORMALIZATIONS)
        raise SettingsError(f"a normalization is {names}, or three means / three stds above 0; got {text!r}") from None
