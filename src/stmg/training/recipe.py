"""Recipes: settings of a training run, as frozen dataclasses checked when they are built. One YAML file per run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from stmg.data.augment import Augment
from stmg.data.clips import Data
from stmg.data.stills import SimulatedMotion
from stmg.errors import SettingsError, require
from stmg.files import build_dataclass, read_mapping

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

# Settings that may change when a run is resumed: they do not affect the weights.
FREE_SETTINGS = ("notes", "evaluate_every", "save_every", "data.cache_gb", "data.workers", "data.val")


@dataclass(frozen=True)
class Loss:
    """The loss to minimize."""

    hard_pixels: float = 1.0
    """Only pixels whose true class gets at most this probability count (hard-pixel mining). 1: all pixels count."""
    hard_share: float = 0.1
    """Minimum share of the pixels that count with mining."""
    class_weights: Literal["none", "log", "root"] = "root"
    """Weight rare classes more: by the logarithm or the root of their inverse share of the training pixels."""
    undo_class_weights: float = 0.0
    """Share of the class weights (of their logarithm) subtracted from the logits of the trained network. The weights
    help it learn rare classes, but make it predict them too often."""
    auxiliary: float = 0.0
    """Weight of the auxiliary head's loss, for networks that have one."""
    teacher: str = ""
    """A checkpoint whose soft labels the network learns from, besides the true ones; or several, joined by `+`, whose
    mean probabilities it learns from: `lite0-camvid+runs/other/best`."""
    distill: float = 1.0
    """Weight of the teacher's soft labels."""
    temperature: float = 1.0
    """Temperature of the soft labels."""

    def __post_init__(self) -> None:
        require(0 <= self.hard_share <= 1, "loss.hard_share is a share of the pixels", self.hard_share)
        require(self.hard_pixels > 0, "loss.hard_pixels is a probability above 0", self.hard_pixels)
        require(self.temperature > 0, "loss.temperature is above 0", self.temperature)


@dataclass(frozen=True)
class Optimizer:
    """The optimizer and its learning rate."""

    name: Literal["sgd", "adamw"] = "adamw"
    learning_rate: float = 1e-3
    encoder: float = 1.0
    """Learning rate of a pretrained encoder relative to the rest."""
    masks: float = 1.0
    """Learning rate of the mask generator, which is not pretrained, relative to the rest."""
    momentum: float = 0.9
    """Momentum of SGD."""
    weight_decay: float = 1e-2
    decay_norms: bool = False
    """Also decay weights of one dimension (norms, biases)."""
    schedule: Literal["poly", "one-cycle", "cosine", "constant"] = "poly"
    power: float = 0.9
    """Exponent of the poly schedule."""
    warm_up: float = 0.05
    """Share of the steps in which the learning rate rises."""
    clip_gradient: float = 0.0
    """Maximum norm of the gradient. 0: no limit."""

    def __post_init__(self) -> None:
        require(self.learning_rate > 0, "optimizer.learning_rate is above 0", self.learning_rate)
        require(0 <= self.warm_up < 1, "optimizer.warm_up is a share of the steps", self.warm_up)


@dataclass(frozen=True)
class Stmg:
    """The second stage: mask generator and non-key network."""

    base: str = ""
    """Checkpoint of the trained base network. One with a mask generator and as many weight sets is trained further."""
    weight_sets: Literal[1, 2] = 2
    """2: partial frames have their own weights, as in the paper. 1: one set, trained on both kinds of frames."""
    align: bool = True
    """Warp the previous state along DIS flow before comparing it. The paper does not."""
    keep_ratio: float = 0.5
    """Target share of computed blocks. Has no effect without `keep_ratio_weight`."""
    keep_ratio_weight: float = 0.0
    """Weight of the loss that pulls the mean share of computed blocks to `keep_ratio`. The pruning threshold then
    follows it too. 0: only the prior acts, as in the paper, with a threshold of 0.5."""
    kl_weight: float = 1e-3
    """Weight of the KL divergence from the prior."""
    hard_gates: float = 0.0
    """Share of the steps with gates thresholded as in a stream, not sampled, so that the network adapts to it."""
    reconstruction: float = 1.0
    """Weight of the spatial mask's loss against the distortion map. 0: no such loss."""
    miss_weight: float = 1.0
    """Weight of a missed change relative to a false alarm. The best share to take from the current frame is more than
    the probability that the label changed, because features also move within a class."""
    constant_mask: float | None = None
    """Constant spatial mask instead of the learned one. The paper uses 0.8 for CamVid."""
    distortion_aware: bool = True
    """Add the distortion bias to block pruning (dbb-DBB)."""
    distill: float = 1.0
    """Weight of the whole network's soft labels on the same frame."""
    fresh: float = 0.5
    """Weight of the same losses for partial frames that reuse nothing. The paper has none."""
    partial_scales: tuple[float, ...] = (1.0,)
    """Scales of partial frames: each step samples one. The first is used in evaluation and saved."""

    def __post_init__(self) -> None:
        require(0 <= self.keep_ratio <= 1, "stmg.keep_ratio is a share", self.keep_ratio)
        require(0 <= self.hard_gates <= 1, "stmg.hard_gates is a share", self.hard_gates)
        valid = bool(self.partial_scales) and all(0 < scale <= 1 for scale in self.partial_scales)
        require(valid, "stmg.partial_scales are above 0 and at most 1", self.partial_scales)


@dataclass(frozen=True)
class Recipe:
    """A training run."""

    stage: Literal["base", "stmg"] = "base"
    network: str = "ddrnet23-slim"
    """A network of the package. The second stage uses the network of its base."""
    pretrained: str = ""
    """`imagenet`, for networks with such weights, or a checkpoint to start from. A smaller DDRNet is grown."""
    frozen_norm: bool = False
    """Freeze the statistics of batch-norm, for batches too small to measure them. Those of the mask generator, which is
    new in the second stage, are always measured."""
    steps: int = 1000
    batch: int = 8
    """Clips in a step, over all devices."""
    ema_decay: float = 0.0
    """Decay of the moving average of the weights, which is saved in their place. 0: no average."""
    evaluate_every: int = 200
    """Steps between evaluations; the best and the last weights are saved."""
    save_every: int = 50
    """Steps between saves of the state to resume from."""
    compile: bool = False
    """Compile the network with torch.compile."""
    seed: int = 0
    data: Data = field(default_factory=Data)
    augment: Augment = field(default_factory=Augment)
    motion: SimulatedMotion = field(default_factory=SimulatedMotion)
    loss: Loss = field(default_factory=Loss)
    optimizer: Optimizer = field(default_factory=Optimizer)
    stmg: Stmg = field(default_factory=Stmg)
    notes: str = ""
    """Notes for readers of the recipe."""

    def __post_init__(self) -> None:
        require(self.stage in ("base", "stmg"), "stage is base or stmg", self.stage)
        for name in ("steps", "batch", "evaluate_every", "save_every"):
            require(getattr(self, name) >= 1, f"{name} is at least 1", getattr(self, name))
        require(self.batch <= 65536, "batch is at most 65536", self.batch)
        require(0 <= self.seed < 2**63, "seed is at least 0 and below 2^63", self.seed)
        require(0 <= self.ema_decay < 1, "ema_decay is at least 0 and below 1", self.ema_decay)
        if self.stage == "base" and self.data.unlabeled and not self.loss.teacher:
            raise SettingsError(
                "a base network learns nothing from videos without labels unless a teacher gives them: loss.teacher=..."
            )
        if self.stage == "stmg":
            require(self.data.length >= 2, "the second stage needs clips: data.length is at least 2", self.data.length)
            require(not self.compile, "the second stage cannot be compiled: compile is false", self.compile)
            share = self.loss.undo_class_weights
            require(not share, "class weights are undone in the first stage only: loss.undo_class_weights is 0", share)
            require(not self.pretrained, "the second stage starts from stmg.base: pretrained is empty", self.pretrained)


def read_recipe(path: str | Path, overrides: Iterable[str] = ()) -> Recipe:
    """Read a recipe from a YAML file, and apply overrides like `optimizer.learning_rate=0.01`, with YAML values."""
    import yaml

    content = read_mapping(Path(path), SettingsError)
    for override in overrides:
        name, equals, text = override.partition("=")
        if not equals:
            raise SettingsError(f"{override!r} is not a setting; they look like optimizer.learning_rate=0.01")
        *groups, last = name.strip().split(".")
        target = content
        for group in groups:
            target = target.setdefault(group, {})
            if not isinstance(target, dict):
                raise SettingsError(f"{override}: {group} is a setting, not a group of them")
        try:
            target[last] = yaml.safe_load(text) if text else ""
        except yaml.YAMLError:
            raise SettingsError(f"{override!r} cannot be read: {text!r} is not YAML") from None
    return build_dataclass(Recipe, content)


def to_yaml(settings: DataclassInstance) -> str:
    """A recipe, or another dataclass, as YAML with every setting."""
    import yaml

    return str(yaml.safe_dump(_to_lists(asdict(settings)), sort_keys=False, allow_unicode=True))


def _to_lists(value: object) -> object:
    if isinstance(value, dict):
        return {key: _to_lists(item) for key, item in value.items()}
    return [_to_lists(item) for item in value] if isinstance(value, tuple) else value
