"""Cards: what weights are and how they are meant to be used, in JSON beside them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from stmg.masking import Masking
from stmg.scheduler import scheduler_named

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


@dataclass(frozen=True)
class Card:
    """What a checkpoint is, beside its weights."""

    network: str
    """A network of the package, or any other name for one that the loader is given."""
    num_classes: int
    size: tuple[int, int]
    """(H, W) it was trained or meant for; others work."""
    class_names: tuple[str, ...] = ()
    palette: tuple[tuple[int, int, int], ...] = ()
    mean: tuple[float, ...] = IMAGENET_MEAN
    std: tuple[float, ...] = IMAGENET_STD
    head: str | None = None
    blocks: tuple[str, ...] = ()
    output: str | int | None = None
    mask_generator: bool = False
    two_weight_sets: bool = False
    distortion_aware: bool = True
    """Whether block pruning was trained with the distortion bias."""
    constant_mask: float | None = None
    """One value that partial frames use instead of the learned spatial mask."""
    scheduler: dict[str, Any] = field(default_factory=lambda: {"name": "drift"})
    motion: str = "dis"
    partial_scale: float = 1.0
    fusion: float = 0.5
    """What the moved scores of the frame before count for in a key frame's."""
    notes: dict[str, Any] = field(default_factory=dict)
    """Data, command, time, figures: whatever whoever made it wants known."""


def card_from(content: dict[str, Any]) -> Card:
    """A card from what was read; a TypeError if something is missing or too much."""
    return Card(**{key: _tupled(value) for key, value in content.items()})


def settings_of(card: Card) -> dict[str, Any]:
    """How a segmenter is to be set up."""
    return {
        "scheduler": scheduler_named(**card.scheduler),
        "motion": card.motion,
        "partial_scale": card.partial_scale,
        "fusion": card.fusion,
        "palette": np.array(card.palette, np.uint8) if card.palette else None,
        "class_names": card.class_names,
        "masking": Masking() if card.constant_mask is None else Masking(spatial=card.constant_mask),
    }


def _tupled(value: Any) -> Any:
    return tuple(_tupled(item) for item in value) if isinstance(value, list) else value
