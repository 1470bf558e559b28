"""Recipes: what a training run is, as frozen dataclasses, one YAML file a run, checked where they are built."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from stmg.settings import built


@dataclass(frozen=True)
class Data:
    """What is trained on."""

    path: str = ""
    """CamVid, Cityscapes, a folder of your own (see `stmg data check --help`), or rendered streets, `street:0-99`."""
    train: str = "train"
    """The split that is trained on."""
    val: str = "val"
    """The split that is evaluated on; empty for none."""
    size: tuple[int, int] = (360, 480)
    """(H, W) that the network is meant for and evaluated at."""
    stored: float = 1.5
    """Frames are kept this many times larger than `size`, so that enlarged crops have detail."""
    length: int = 1
    """Frames in a clip: 1 for the base network, 2 or more for STMG."""
    stride: int = 1
    """Frames of a real video from one frame of a clip to the next."""
    unlabelled: tuple[str, ...] = ()
    """Videos, or datasets, whose labels nobody looks at, if there are any: a teacher gives them."""
    movable: tuple[str, ...] = ("car", "pedestrian", "bicyclist", "person", "rider", "truck", "bus", "bicycle")
    """Classes whose objects may move on their own where clips are made from stills; those that the data has."""
    memory: float = 6.0
    """Gigabytes of decoded frames to keep; what does not fit is read again each time."""
    workers: int = 0
    """Processes that prepare batches; 0 prepares them in the training process."""

    def __post_init__(self) -> None:
        _check(self.length >= 1, "data.length is at least 1", self.length)
        _check(self.stride >= 1, "data.stride is at least 1", self.stride)
        _check(min(self.size) >= 32, "data.size is at least 32x32", self.size)
        _check(self.stored > 0, "data.stored is above 0", self.stored)


@dataclass(frozen=True)
class Augment:
    """How a clip is changed, all its frames alike."""

    crop: tuple[int, int] = (288, 384)
    """(H, W) of what the network is trained on."""
    scale: tuple[float, float] = (0.7, 2.0)
    """Smallest and largest size of a frame, relative to `data.size`."""
    rotate: float = 0.0
    """Largest angle in degrees."""
    flip: bool = True
    brightness: float = 0.12
    contrast: float = 0.25
    gamma: float = 0.3
    saturation: float = 0.4
    tint: float = 0.03
    paste: int = 0
    """Most objects of another frame that are pasted into a single one, so that rare classes are seen more often."""
    pasted: tuple[str, ...] = ("pedestrian", "bicyclist", "signsymbol", "person", "rider", "bicycle", "traffic sign")
    """Classes whose objects are pasted; those that the data has."""
    noise: float = 0.0
    """Largest deviation of sensor noise, drawn anew for each frame; of 1."""

    def __post_init__(self) -> None:
        _check(0 < self.scale[0] <= self.scale[1], "augment.scale is two numbers above 0, in order", self.scale)


@dataclass(frozen=True)
class Motion:
    """How the camera and objects move where clips are made from stills; per frame, as fractions of the frame."""

    zoom: float = 0.03
    pan: float = 0.02
    roll: float = 0.3
    """Degrees."""
    tilt: float = 0.02
    """Perspective: how much an edge of the frame shrinks."""
    objects: float = 0.03
    """Speed of objects that move on their own."""
    most_objects: int = 3
    gap: int = 4
    """A step of a clip stands for one to this many frames, drawn."""


@dataclass(frozen=True)
class Loss:
    """What is minimised."""

    hard_pixels: float = 1.0
    """Only pixels whose true class gets at most this probability count (hard-pixel mining); 1 for all."""
    hard_share: float = 0.1
    """Mining keeps at least this share of the pixels."""
    class_weights: Literal["none", "log", "root"] = "root"
    """Rare classes weigh more: by the logarithm or the root of their inverse share of the training pixels."""
    take_back: float = 0.0
    """Share of the class weights (of their logarithm) that is taken back from the scores once a network is trained: the
    weights let it learn rare classes, and make it see them where they are not."""
    auxiliary: float = 0.0
    """Weight of the auxiliary head's loss, for networks that have one."""
    teacher: str = ""
    """A checkpoint whose soft labels the network learns from, besides the true ones."""
    distill: float = 1.0
    """Weight of the teacher's soft labels."""
    temperature: float = 1.0


@dataclass(frozen=True)
class Optimiser:
    """How it is minimised."""

    name: Literal["sgd", "adamw"] = "adamw"
    learning_rate: float = 1e-3
    encoder: float = 1.0
    """Learning rate of a pretrained encoder, relative to the rest."""
    masks: float = 1.0
    """Learning rate of the mask generator, which starts from nothing, relative to the rest."""
    momentum: float = 0.9
    """Of SGD."""
    weight_decay: float = 1e-2
    schedule: Literal["poly", "one-cycle", "constant"] = "poly"
    power: float = 0.9
    """Of the poly schedule."""
    warm_up: float = 0.05
    """Share of the steps in which the learning rate rises."""
    clip_gradient: float = 0.0
    """Largest norm of the gradient; 0 for none."""

    def __post_init__(self) -> None:
        _check(self.learning_rate > 0, "optimiser.learning_rate is above 0", self.learning_rate)
        _check(0 <= self.warm_up < 1, "optimiser.warm_up is a share of the steps", self.warm_up)


@dataclass(frozen=True)
class Stmg:
    """The second stage: mask generator and non-key network."""

    base: str = ""
    """The checkpoint of the trained base network; one with a mask generator and as many weight sets is trained on."""
    weight_sets: Literal[1, 2] = 2
    """2: partial frames have weights of their own, as in the paper; 1: one set for both, trained on both."""
    align: bool = True
    """Move the previous state along DIS motion before it is compared; the paper does not."""
    keep: float = 0.5
    """Target share of the blocks that are kept."""
    steer: float = 0.0
    """Weight that steers the mean share of kept blocks to `keep`; 0 leaves it to the prior alone, as in the paper."""
    divergence: float = 1e-3
    """Weight of the KL divergence from the prior."""
    decided: float = 0.0
    """Share of the steps whose gates are decided as on a stream, not drawn: the network relies on the kept ones."""
    reconstruction: float = 1.0
    """Weight of the spatial mask's loss against the distortion map; 0 for none."""
    missed: float = 1.0
    """How much worse it is for the mask to miss a change than to see one in vain. The best share to take from the
    current frame is more than the probability that the label changed: features move inside a class too."""
    constant_mask: float | None = None
    """A spatial mask of one value instead of the learned one: the paper's setting for CamVid is 0.8."""
    distortion_aware: bool = True
    """Add the distortion bias to block pruning (dbb-DBB)."""
    distill: float = 1.0
    """Weight of the whole network's soft labels on the same frame."""
    fresh: float = 0.5
    """Weight of the same losses for partial frames that reuse nothing; the paper has none."""
    partial_scales: tuple[float, ...] = (1.0,)
    """Scales at which partial frames are computed: one is drawn for each step, the first is evaluated and saved."""

    def __post_init__(self) -> None:
        _check(0 <= self.keep <= 1, "stmg.keep is a share", self.keep)
        _check(0 <= self.decided <= 1, "stmg.decided is a share", self.decided)
        right = bool(self.partial_scales) and all(0 < scale <= 1 for scale in self.partial_scales)
        _check(right, "stmg.partial_scales are above 0 and at most 1", self.partial_scales)


@dataclass(frozen=True)
class Recipe:
    """A training run."""

    stage: Literal["base", "stmg"] = "base"
    network: str = "ddrnet23-slim"
    """A network of the package; in the second stage the base's is taken."""
    pretrained: str = ""
    """`imagenet` for networks that can start from it, or a checkpoint file to start from."""
    frozen_norm: bool = False
    """Batch-norm keeps its statistics: for batches too small to measure them."""
    steps: int = 1000
    batch: int = 8
    """Clips in a step, over all devices."""
    average: float = 0.0
    """Decay of the moving average of the weights, which is what is saved; 0 for none."""
    evaluate_every: int = 200
    """Steps between evaluations; the best and the last weights are kept."""
    save_every: int = 50
    """Steps between saved states to resume from."""
    compile: bool = False
    """Compile the network with torch.compile."""
    seed: int = 0
    data: Data = field(default_factory=Data)
    augment: Augment = field(default_factory=Augment)
    motion: Motion = field(default_factory=Motion)
    loss: Loss = field(default_factory=Loss)
    optimiser: Optimiser = field(default_factory=Optimiser)
    stmg: Stmg = field(default_factory=Stmg)
    notes: str = ""
    """What a reader of the recipe should know."""

    def __post_init__(self) -> None:
        for name in ("steps", "batch", "evaluate_every", "save_every"):
            _check(getattr(self, name) >= 1, f"{name} is at least 1", getattr(self, name))
        _check(0 <= self.average < 1, "average is at least 0 and below 1", self.average)
        if self.stage == "stmg":
            _check(self.data.length >= 2, "the second stage needs clips: data.length is at least 2", self.data.length)
            _check(not self.compile, "the second stage cannot be compiled: compile is false", self.compile)
            taken = self.loss.take_back
            _check(not taken, "only a base network's class weights are taken back: loss.take_back is 0", taken)


def read_recipe(path: str | Path, overrides: Iterable[str] = ()) -> Recipe:
    """A recipe from its YAML file, with settings like `optimiser.learning_rate=0.01` laid over it."""
    import yaml

    path = Path(path)
    try:
        content = yaml.safe_load(path.read_text())
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is no YAML: {' '.join(str(error).split())}") from None
    content = content or {}
    if not isinstance(content, dict):
        raise ValueError(f"{path} is no recipe: it holds a {type(content).__name__}, not settings by name")
    for override in overrides:
        name, equals, text = override.partition("=")
        if not equals:
            raise ValueError(f"{override!r} is no setting; they look like optimiser.learning_rate=0.01")
        *groups, last = name.split(".")
        place = content
        for group in groups:
            place = place.setdefault(group, {})
            if not isinstance(place, dict):
                raise ValueError(f"{override}: {group} is a setting, not a group of them")
        try:
            place[last] = yaml.safe_load(text) if text else ""
        except yaml.YAMLError:
            raise ValueError(f"{override!r} cannot be read: {text!r} is no YAML") from None
    return built(Recipe, content)


def recipe_text(recipe: Recipe) -> str:
    """A recipe as YAML, every setting written out."""
    import yaml

    return str(yaml.safe_dump(_plain(asdict(recipe)), sort_keys=False, allow_unicode=True))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


def _check(right: bool, rule: str, got: Any) -> None:
    if not right:
        raise ValueError(f"{rule}; got {got}")
