"""Clips to train on. Each depends only on the seed and its number, so any run can be resumed anywhere."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stmg.data.augment import Augment, ClipTransform, add_noise, paste_objects, sample_transform
from stmg.data.dataset import Dataset, Video
from stmg.data.stills import SimulatedMotion, clip_from_still
from stmg.errors import DataError, require
from stmg.streaming.motion import DisMotion, make_view
from stmg.video.frames import Frame, Image, check_size
from stmg.video.labels import MAX_DATASET_CLASSES, Labels

# Class id of frames without labels, which no class of a dataset has. Pixels outside the frame are 255 there too.
UNLABELED = MAX_DATASET_CLASSES
MIN_VIDEO_RATE = 5.0  # FPS below which neighbors are not adjacent frames, so clips are made from stills


@dataclass(frozen=True)
class Data:
    """The data to train on."""

    path: str = ""
    """CamVid, Cityscapes, your own folder (see `stmg data check --help`), or rendered streets, `street:0-99`."""
    train: str = "train"
    """The split to train on."""
    val: str = "val"
    """The split to evaluate on. Empty: no evaluation."""
    size: tuple[int, int] = (360, 480)
    """(H, W) that the network is meant for and evaluated at."""
    storage_scale: float = 1.5
    """Frames are stored this many times larger than `size`, so that upsampled crops have detail."""
    length: int = 1
    """Frames in a clip: 1 for the base network, 2 or more for STMG."""
    stride: int = 1
    """Distance between the frames of a clip in a real video."""
    unlabeled: tuple[str, ...] = ()
    """Videos or datasets whose own labels are not used. A teacher labels them."""
    movable_classes: tuple[str, ...] = ("car", "pedestrian", "bicyclist", "person", "rider", "truck", "bus", "bicycle")
    """Classes whose objects may move on their own in clips made from stills, if the data has them."""
    cache_gb: float = 6.0
    """Gigabytes of decoded frames to keep in memory. Other frames are read again each time."""
    workers: int = 0
    """Processes that prepare batches. 0: the training process prepares them."""

    def __post_init__(self) -> None:
        require(1 <= self.length <= 1000, "data.length is from 1 to 1000", self.length)
        require(self.stride >= 1, "data.stride is at least 1", self.stride)
        require(min(self.size) >= 32, "data.size is at least 32x32", self.size)
        check_size(self.size, "data.size")
        require(0 < self.storage_scale <= 8, "data.storage_scale is above 0 and at most 8", self.storage_scale)
        check_size(tuple(round(self.storage_scale * side) for side in self.size), "data.size times data.storage_scale")
        require(0 <= self.workers <= 256, "data.workers is from 0 to 256", self.workers)


class TrainingClip(NamedTuple):
    """Adjacent frames, oldest first."""

    images: NDArray[np.uint8]
    """(T, H, W, 3) RGB."""
    labels: NDArray[np.uint8]
    """(T, H, W) class ids: 255 for pixels without a class, `UNLABELED` for frames without labels."""
    flows: NDArray[np.float32]
    """(T - 1, h, w, 2): flow from each frame to the one before. See `stmg.streaming.motion`."""


class FrameId(NamedTuple):
    """A frame of the training data."""

    video: int
    """Index of its video in `TrainingClips.videos`."""
    position: int
    """Index of the frame in its video."""


class TrainingClips:
    """An endless series of clips by number. An epoch has every labeled frame once, in its own order."""

    def __init__(
        self,
        dataset: Dataset,
        split: str,
        data: Data,
        augment: Augment,
        motion: SimulatedMotion,
        seed: int,
        aligned: bool = False,
        unlabeled: tuple[Video, ...] = (),
    ) -> None:
        self.data, self.augment, self.motion, self.seed = data, augment, motion, seed
        self.aligned = aligned and data.length > 1
        self.stored_size = round(data.size[0] * data.storage_scale), round(data.size[1] * data.storage_scale)
        own = dataset.videos(split)
        self.videos = [*own, *unlabeled]
        self._num_own = len(own)
        self.labeled_frames = [FrameId(v, index) for v, video in enumerate(own) for index in video.labeled]
        others = enumerate(unlabeled, len(own))
        self.unlabeled_frames = [FrameId(v, index) for v, video in others for index in _list_ends(video, data)]
        if not self.labeled_frames and not self.unlabeled_frames:
            raise DataError(f"split {split!r} of {dataset.name} has no labeled frame to train on")
        class_ids = {name.lower(): class_id for class_id, name in enumerate(dataset.class_names)}
        self.movable = tuple(class_ids[name.lower()] for name in data.movable_classes if name.lower() in class_ids)
        self.pasteable = tuple(class_ids[name.lower()] for name in augment.paste_classes if name.lower() in class_ids)
        self._cache: dict[FrameId, tuple[Image, Labels]] = {}
        self._cache_size = int(data.cache_gb * 1e9 / (4 * self.stored_size[0] * self.stored_size[1]))
        self._flow: DisMotion | None = None

    def __len__(self) -> int:
        """Number of clips in an epoch: every labeled frame, and at most as many unlabeled ones."""
        labeled, unlabeled = len(self.labeled_frames), len(self.unlabeled_frames)
        return labeled + min(unlabeled, labeled or unlabeled)

    def __getitem__(self, number: int) -> TrainingClip:
        epoch, position = divmod(number, len(self))
        frame = self._choose_frame(epoch, position)
        rng = np.random.default_rng((self.seed, epoch, position))
        transform = sample_transform(self.augment, self.stored_size, 1 / self.data.storage_scale, rng)
        if self.data.length > 1 and not is_moving(self.videos[frame.video]):
            image, labels = self._read_still(frame, rng)
            frames, truths = clip_from_still(image, labels, self.data.length, self.motion, self.movable, transform, rng)
        else:
            frames, truths = self._read_recorded(frame, transform, rng)
        noise = 255 * rng.uniform(0, self.augment.noise)
        frames = np.stack([add_noise(frame, noise, rng) for frame in frames])
        return TrainingClip(frames, truths, self._estimate_flows(frames))

    def class_shares(self, num_classes: int) -> NDArray[np.float64]:
        """Share of each class in the labeled pixels, over a sample of the frames."""
        counts = np.zeros(256, np.int64)
        for frame in self.labeled_frames[:: max(1, len(self.labeled_frames) // 200)]:
            _, labels = self._read(frame)
            counts += np.bincount(labels[::3, ::3].ravel(), minlength=256)
        shares: NDArray[np.float64] = counts[:num_classes] / max(1, counts[:num_classes].sum())
        return shares

    def _choose_frame(self, epoch: int, position: int) -> FrameId:
        """The last frame of a clip, or the still that it is made from."""
        rng = np.random.default_rng((self.seed, epoch))
        num_unlabeled = len(self) - len(self.labeled_frames)
        sample = rng.permutation(len(self.unlabeled_frames))[:num_unlabeled]
        frames: list[FrameId] = [*self.labeled_frames, *[self.unlabeled_frames[index] for index in sample]]
        return frames[int(rng.permutation(len(frames))[position])]

    def _read_recorded(
        self, last: FrameId, transform: ClipTransform, rng: np.random.Generator
    ) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        """Read frames of a real video up to the last, closer together near its start."""
        length = self.data.length
        step = self.data.stride * int(rng.integers(1, self.motion.max_gap + 1)) if length > 1 else 1
        frames = [last._replace(position=max(0, last.position - step * back)) for back in reversed(range(length))]
        pairs = [self._read_still(frame, rng) if length == 1 else self._read(frame) for frame in frames]
        images = np.stack([transform.image(image) for image, _ in pairs])
        return images, np.stack([transform.labels(labels) for _, labels in pairs])

    def _read_still(self, frame: FrameId, rng: np.random.Generator) -> tuple[Image, Labels]:
        """Read a single frame, possibly with pasted objects of another frame."""
        still = self._read(frame)
        if not self.augment.paste or not self.labeled_frames:
            return still
        other = self._read(self.labeled_frames[rng.integers(len(self.labeled_frames))])
        return paste_objects(still, other, self.pasteable, self.augment.paste, rng)

    def _read(self, frame: FrameId) -> tuple[Image, Labels]:
        """Read a frame of a video and its labels at the stored size."""
        if frame in self._cache:
            return self._cache[frame]
        video = self.videos[frame.video]
        image = video.image(frame.position, self.stored_size)
        truth = video.truth(frame.position, self.stored_size) if frame.video < self._num_own else None
        if truth is None:
            truth = np.full(self.stored_size, UNLABELED, np.uint8)
        if len(self._cache) < self._cache_size:
            self._cache[frame] = image, truth
        return image, truth

    def __getstate__(self) -> dict[str, object]:
        """State for a loader process, without decoded frames."""
        return {**self.__dict__, "_cache": {}, "_flow": None}

    def _estimate_flows(self, frames: NDArray[np.uint8]) -> NDArray[np.float32]:
        if not self.aligned:
            return np.zeros((max(0, len(frames) - 1), 1, 1, 2), np.float32)
        self._flow = self._flow or DisMotion()
        views = [make_view(Frame(frame)) for frame in frames]
        flows = [self._flow.estimate(a, b) for a, b in pairwise(views)]
        return np.stack([flow for flow in flows if flow is not None])


def is_moving(video: Video) -> bool:
    """True if neighbors in a video are adjacent frames rather than stills taken now and then."""
    return video.rate is not None and video.rate >= MIN_VIDEO_RATE


def clip_numbers(step: int, last: int, batch: int, rank: int = 0, ranks: int = 1) -> Iterator[list[int]]:
    """Yield the numbers of the clips of each step from `step` up to `last`. Ranks share the batch of a step."""
    share = batch // ranks
    for current in range(step, last):
        first = current * batch + rank * share
        yield list(range(first, first + share))


def _list_ends(video: Video, data: Data) -> range:
    """Indices of the frames at which a clip may end."""
    return range(min(len(video) - 1, (data.length - 1) * data.stride), len(video))
