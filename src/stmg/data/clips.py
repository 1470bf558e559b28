"""Clips to train on: every one follows from the seed and its number, so any run can be taken up anywhere."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stmg.config import Augment, Data, Motion
from stmg.data.augment import Look, draw_look, noisy
from stmg.data.dataset import DataError, Dataset, Video
from stmg.data.paste import pasted
from stmg.data.stills import clip_from_still
from stmg.frames import Frame, Image
from stmg.motion import DisMotion, view_of
from stmg.state import Labels

UNLABELLED = 254  # pixels of frames that nobody labelled; outside the frame it is 255 there too
SLOWEST = 5.0  # frames a second below which neighbours are no adjacent frames, and clips are made from stills


class Clip(NamedTuple):
    """Adjacent frames, oldest first."""

    images: NDArray[np.uint8]
    """(T, H, W, 3) RGB."""
    labels: NDArray[np.uint8]
    """(T, H, W) class ids, 255 where there is none, `UNLABELLED` all over frames without labels."""
    fields: NDArray[np.float32]
    """(T - 1, h, w, 2): motion fields from each frame to the one before; see `stmg.motion`."""


class Clips:
    """Clip `number` of an endless series: an epoch is every labelled frame once, in an order of its own."""

    def __init__(
        self,
        dataset: Dataset,
        split: str,
        data: Data,
        augment: Augment,
        motion: Motion,
        seed: int,
        aligned: bool = False,
        unlabelled: tuple[Video, ...] = (),
    ) -> None:
        self.data, self.augment, self.motion, self.seed = data, augment, motion, seed
        self.aligned = aligned and data.length > 1
        self.stored = round(data.size[0] * data.stored), round(data.size[1] * data.stored)
        self.videos = [*dataset.videos(split), *unlabelled]
        self._labelled = len(self.videos) - len(unlabelled)
        self.known = [(number, place) for number in range(self._labelled) for place in self.videos[number].labelled]
        others = range(self._labelled, len(self.videos))
        self.unknown = [(number, at) for number in others for at in _ends(self.videos[number], data)]
        if not self.known and not self.unknown:
            raise DataError(f"split {split!r} of {dataset.name} has no labelled frame to train on")
        named = {name.lower(): number for number, name in enumerate(dataset.class_names)}
        self.movable = tuple(named[name.lower()] for name in data.movable if name.lower() in named)
        self.pasted = tuple(named[name.lower()] for name in augment.pasted if name.lower() in named)
        self._kept: dict[tuple[int, int], tuple[Image, Labels]] = {}
        self._most_kept = int(data.memory * 1e9 / (4 * self.stored[0] * self.stored[1]))
        self._flow: DisMotion | None = None

    def __len__(self) -> int:
        """Clips in an epoch: every labelled frame, and as many without labels."""
        return len(self.known) + min(len(self.unknown), len(self.known) or len(self.unknown))

    def __getitem__(self, number: int) -> Clip:
        epoch, turn = divmod(number, len(self))
        order = np.random.default_rng((self.seed, epoch))
        some = order.permutation(len(self.unknown))[: len(self) - len(self.known)]
        places = [*self.known, *[self.unknown[place] for place in some]]
        chosen, place = places[order.permutation(len(places))[turn]]
        video = self.videos[chosen]
        draw = np.random.default_rng((self.seed, epoch, turn))
        look = draw_look(self.augment, self.stored, 1 / self.data.stored, draw)
        length = self.data.length
        if length > 1 and not is_moving(video):
            image, labels = self._still(chosen, place, draw)
            frames, truths = clip_from_still(image, labels, length, self.motion, self.movable, look, draw)
        else:
            frames, truths = self._recorded(chosen, place, look, draw)
        deviation = 255 * draw.uniform(0, self.augment.noise)
        frames = np.stack([noisy(frame, deviation, draw) for frame in frames])
        return Clip(frames, truths, self._fields(frames))

    def shares(self, num_classes: int) -> NDArray[np.float64]:
        """The share of the labelled pixels that each class has, over a sample of the frames."""
        counts = np.zeros(256, np.int64)
        for chosen, place in self.known[:: max(1, len(self.known) // 200)]:
            _, labels = self._frame(chosen, place)
            counts += np.bincount(labels[::3, ::3].ravel(), minlength=256)
        shares: NDArray[np.float64] = counts[:num_classes] / max(1, counts[:num_classes].sum())
        return shares

    def _recorded(
        self, chosen: int, place: int, look: Look, draw: np.random.Generator
    ) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        """Frames of a real video that end at a place; fewer apart near its start."""
        length = self.data.length
        step = self.data.stride * int(draw.integers(1, self.motion.gap + 1)) if length > 1 else 1
        places = [max(0, place - step * back) for back in reversed(range(length))]
        pairs = [self._still(chosen, at, draw) if length == 1 else self._frame(chosen, at) for at in places]
        return np.stack([look.image(image) for image, _ in pairs]), np.stack(
            [look.labels(labels) for _, labels in pairs]
        )

    def _still(self, chosen: int, place: int, draw: np.random.Generator) -> tuple[Image, Labels]:
        """A frame that stands alone, perhaps with objects of another one pasted into it."""
        still = self._frame(chosen, place)
        if not self.augment.paste:
            return still
        other = self._frame(*self.known[draw.integers(len(self.known))])
        return pasted(still, other, self.pasted, self.augment.paste, draw)

    def _frame(self, chosen: int, place: int) -> tuple[Image, Labels]:
        """A frame of a video and its labels in the stored size."""
        key, video = (chosen, place), self.videos[chosen]
        if key in self._kept:
            return self._kept[key]
        image = video.image(place, self.stored)
        truth = video.truth(place, self.stored) if chosen < self._labelled else None
        if truth is None:
            truth = np.full(self.stored, UNLABELLED, np.uint8)
        if len(self._kept) < self._most_kept:
            self._kept[key] = image, truth
        return image, truth

    def __getstate__(self) -> dict[str, Any]:
        """For a loader's process: what is kept here is not sent along."""
        return {**self.__dict__, "_kept": {}, "_flow": None}

    def _fields(self, frames: NDArray[np.uint8]) -> NDArray[np.float32]:
        if not self.aligned:
            return np.zeros((max(0, len(frames) - 1), 1, 1, 2), np.float32)
        self._flow = self._flow or DisMotion()
        views = [view_of(Frame(frame)) for frame in frames]
        fields = [self._flow.between(a, b).field for a, b in pairwise(views)]
        return np.stack([field for field in fields if field is not None])


def is_moving(video: Video) -> bool:
    """Whether neighbours in a video are adjacent frames, not stills taken now and then."""
    return video.rate is not None and video.rate >= SLOWEST


def numbers(step: int, last: int, batch: int, rank: int = 0, ranks: int = 1) -> Iterator[list[int]]:
    """Numbers of the clips of each step from `step` up to `last`; ranks share a step's batch between them."""
    own = batch // ranks
    for at in range(step, last):
        first = at * batch + rank * own
        yield list(range(first, first + own))


def _ends(video: Video, data: Data) -> range:
    """Places in a video at which a clip may end."""
    return range(min(len(video) - 1, (data.length - 1) * data.stride), len(video))
