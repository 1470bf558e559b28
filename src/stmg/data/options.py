"""Options of training data: which videos, how clips are augmented, how stills are set in motion."""

from __future__ import annotations

from dataclasses import dataclass

from stmg.errors import require
from stmg.video.frames import check_size


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
    storage_scale: float = 1.5
    """Frames are stored this many times larger than `size`, so that upsampled crops have detail."""
    length: int = 1
    """Frames in a clip: 1 for the base network, 2 or more for STMG."""
    stride: int = 1
    """Frames of a real video from one frame of a clip to the next."""
    unlabeled: tuple[str, ...] = ()
    """Videos or datasets whose own labels, if any, are not used: a teacher gives them."""
    movable_classes: tuple[str, ...] = ("car", "pedestrian", "bicyclist", "person", "rider", "truck", "bus", "bicycle")
    """Classes whose objects may move on their own where clips are made from stills; those that the data has."""
    cache_gb: float = 6.0
    """Gigabytes of decoded frames to hold in memory; what does not fit is read again each time."""
    workers: int = 0
    """Processes that prepare batches; 0 prepares them in the training process."""

    def __post_init__(self) -> None:
        require(1 <= self.length <= 1000, "data.length is from 1 to 1000", self.length)
        require(self.stride >= 1, "data.stride is at least 1", self.stride)
        require(min(self.size) >= 32, "data.size is at least 32x32", self.size)
        check_size(self.size, "data.size")
        require(0 < self.storage_scale <= 8, "data.storage_scale is above 0 and at most 8", self.storage_scale)
        check_size(tuple(round(self.storage_scale * side) for side in self.size), "data.size times data.storage_scale")
        require(0 <= self.workers <= 256, "data.workers is from 0 to 256", self.workers)


@dataclass(frozen=True)
class Augment:
    """How a clip is augmented, all its frames alike."""

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
    paste_classes: tuple[str, ...] = (
        "pedestrian",
        "bicyclist",
        "signsymbol",
        "person",
        "rider",
        "bicycle",
        "traffic sign",
    )
    """Classes whose objects are pasted; those that the data has."""
    noise: float = 0.0
    """Largest std of sensor noise, for values from 0 to 1; each frame has noise of its own."""

    def __post_init__(self) -> None:
        require(min(self.crop) >= 32, "augment.crop is at least 32x32", self.crop)
        check_size(self.crop, "augment.crop")
        ordered = 0 < self.scale[0] <= self.scale[1] <= 16
        require(ordered, "augment.scale is two numbers above 0 and at most 16, in order", self.scale)
        require(0 <= self.paste <= 1000, "augment.paste is from 0 to 1000", self.paste)


@dataclass(frozen=True)
class Motion:
    """How the camera and objects move where clips are made from stills; per frame, as fractions of the frame."""

    zoom: float = 0.03
    pan: float = 0.02
    roll: float = 0.3
    """Degrees."""
    tilt: float = 0.02
    """Perspective: how much an edge of the frame shrinks."""
    object_speed: float = 0.03
    """Largest speed of objects that move on their own."""
    max_objects: int = 3
    max_gap: int = 4
    """A step of a clip stands for one to this many frames, sampled."""

    def __post_init__(self) -> None:
        require(0 <= self.max_objects <= 1000, "motion.max_objects is from 0 to 1000", self.max_objects)
        require(self.max_gap >= 1, "motion.max_gap is at least 1", self.max_gap)
