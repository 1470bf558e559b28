"""Cards: the description of weights and of their intended use, in JSON beside them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from stmg.errors import ModelError, SettingsError
from stmg.files import build_from_file, read_mapping
from stmg.streaming.logits import Foreground
from stmg.streaming.masks import Masking
from stmg.streaming.settings import SETTINGS, Settings, make_settings
from stmg.streaming.values import read_scheduler
from stmg.video.frames import check_size
from stmg.video.labels import MAX_CLASSES
from stmg.video.normalization import IMAGENET_MEAN, IMAGENET_STD, Normalization

CARD = "stmg.json"
FORMAT = 1
SHARED_SETTINGS = ("partial_scale", "fusion", "class_names")
"""The settings that a card holds as `Settings` does; it writes others in its own way."""


@dataclass(frozen=True)
class Card:
    """Description of a checkpoint, beside its weights."""

    network: str
    """A network of the package, or any other name for a network that is passed when loading."""
    num_classes: int
    size: tuple[int, int] | None = None
    """(H, W) of training or intended use; other sizes work. None: unknown."""
    class_names: tuple[str, ...] = ()
    palette: tuple[tuple[int, int, int], ...] = ()
    mean: tuple[float, ...] = IMAGENET_MEAN
    std: tuple[float, ...] = IMAGENET_STD
    head: str | None = None
    blocks: tuple[str, ...] = ()
    output: str | int | None = None
    activation: str | None = None
    """Output of a network with one channel: logits or probability. None: decided on a test image."""
    threshold: float | None = None
    """Probability above which a pixel is foreground, for a network with one channel. None: 0.5."""
    mask_generator: bool = False
    two_weight_sets: bool = False
    distortion_aware: bool = True
    """True if block pruning was trained with the distortion bias."""
    constant_mask: float | None = None
    """Constant used by partial frames instead of the learned spatial mask."""
    scheduler: dict[str, object] = field(default_factory=lambda: {"name": "drift"})
    offline: dict[str, object] = field(default_factory=lambda: {"name": "drift", "key_above": 0.6, "longest": 12})
    """The scheduler of offline mode."""
    motion: str = "dis"
    partial_scale: float = SETTINGS["partial_scale"].default
    fusion: float = SETTINGS["fusion"].default
    """Weight of the previous frame's warped logits in those of a key frame."""
    notes: dict[str, object] = field(default_factory=dict)
    """Anything else worth knowing: data, command, time, figures."""

    def __post_init__(self) -> None:
        if not isinstance(self.network, str) or not self.network:
            raise SettingsError(f"network is a name; got {self.network!r}")
        if not isinstance(self.num_classes, int) or not 1 <= self.num_classes <= MAX_CLASSES:
            raise SettingsError(f"num_classes is from 1 to {MAX_CLASSES}; got {self.num_classes!r}")
        if self.size is not None:
            check_size(self.size)
        for key, value in (("scheduler", self.scheduler), ("offline", self.offline)):
            if not isinstance(value, dict) or "name" not in value:
                raise SettingsError(f"{key} has a name and its settings; got {value!r}")
        Normalization(self.mean, self.std)
        Foreground(self.activation, self.threshold)

    @property
    def normalization(self) -> Normalization:
        """Normalization that the network was trained with."""
        return Normalization(self.mean, self.std)

    def options(self) -> dict[str, Any]:
        """The intended streaming settings, as fields of `Settings`."""
        options: dict[str, Any] = {
            "model_size": self.size,
            "default_schedulers": {
                "online": read_scheduler("scheduler", self.scheduler),
                "offline": read_scheduler("offline", self.offline),
            },
            "motion": self.motion,
            **{name: getattr(self, name) for name in SHARED_SETTINGS},
        }
        if self.constant_mask is not None:
            options["masking"] = Masking(spatial=self.constant_mask)
        if self.palette:
            options["palette"] = self.palette
        return options

    def settings(self) -> Settings:
        """The intended streaming settings."""
        return make_settings(self.options())


def parse_card(content: Mapping[str, object], path: Path) -> Card:
    """Parse a card from JSON. `path` is the file that errors name."""
    card = build_from_file(Card, content, path, ModelError)
    try:
        card.settings()
    except SettingsError as error:
        raise ModelError(f"{path} is damaged: {error}") from None
    return card


def read_card(folder: Path) -> Card:
    """Read the card of a checkpoint folder."""
    path = folder / CARD
    if not path.is_file():
        raise ModelError(f"{folder} is not a checkpoint: it has no {CARD}")
    return parse_card(read_mapping(path, ModelError, format=FORMAT), path)


def card_json(card: Card) -> str:
    """The text of a checkpoint's card file."""
    return json.dumps({"format": FORMAT, **asdict(card)}, indent=2) + "\n"
