"""Short clips without labels, from a user's videos or from their frames as stills set in motion."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from stmg.data.augment import Augment, sample_transform
from stmg.data.clips import is_moving
from stmg.data.dataset import Video
from stmg.data.stills import SimulatedMotion, clip_from_still
from stmg.errors import DataError
from stmg.streaming.flow import Flow
from stmg.streaming.motion import MotionEstimator, View, make_view
from stmg.streaming.runtime import Runtime
from stmg.streaming.tracker import estimate_step
from stmg.video.frames import Frame, Image, resize_image

STILL_MOTION = SimulatedMotion(zoom=0.04, pan=0.03, tilt=0.02, object_speed=0.03, max_gap=1)
CLOSER = (1.0, 1.4)  # zoom into a still, so that it covers the frame while the camera moves
ZOOM_ALONE = Augment(scale=CLOSER, flip=False, brightness=0, contrast=0, gamma=0, saturation=0, tint=0)
HELD_OUT = 0.2  # share of each video, at its end, or of the videos
MIN_VIDEOS_TO_SPLIT = 5  # with at least this many videos, hold out whole videos
MIN_CLIP_FRAMES = 3  # minimum frames of a clip of a video


@dataclass(frozen=True)
class UnlabeledClip:
    """Adjacent frames of a clip."""

    images: Sequence[Image]
    flows: Sequence[Flow | None]
    """Flow from each frame except the first to the one before."""
    views: Sequence[View]
    motion: MotionEstimator

    def for_offline(self) -> UnlabeledClip:
        """A copy of the clip with the flows of offline mode."""
        motion = self.motion.for_offline()
        if motion is self.motion:
            return self
        flows = [motion.estimate(before, now) for before, now in pairwise(self.views)]
        return replace(self, flows=flows, motion=motion)


class _Part(NamedTuple):
    """A range of frames of a video."""

    video: Video
    frames: range


class UnlabeledClips:
    """Clips by number. A number always gives the same clip.

    size_for: returns the size at which a stream computes frames of a size. Frames computed at another size than `size`
        are cropped in the middle to its shape. None: all frames are resized.
    max_interval: frames from the first to the last frame of a clip.
    still_share: share of the clips that are stills set in motion, so that a short video is not memorized.
    """

    def __init__(
        self,
        videos: Sequence[Video],
        runtime: Runtime,
        motion: MotionEstimator,
        size: tuple[int, int],
        max_interval: int,
        still_share: float,
        seed: int,
        size_for: Callable[[tuple[int, int]], tuple[int, int]] | None = None,
    ) -> None:
        self.videos = [video for video in videos if len(video)]
        self.runtime, self.motion, self.size = runtime, motion, size
        self.max_interval, self.still_share, self.seed, self.size_for = max_interval, still_share, seed, size_for
        self.train, self.held_out = _split(self.videos)
        if not self.held_out:
            raise DataError("no frames are left to check a corrector on; give a longer video, or several")

    def get(self, number: int) -> UnlabeledClip:
        """A clip to learn from."""
        rng = np.random.default_rng((self.seed, number))
        video, frames = _sample_part(self.train, rng)
        if rng.random() >= self.still_share:
            clip = self._cut(video, frames, rng)
            if clip is not None:
                return clip
        return self._from_still(self.read(video, int(rng.integers(frames.start, frames.stop))), rng)

    def get_held_out(self, number: int) -> UnlabeledClip | None:
        """A clip to check on: from a moving video, or a still set in motion. None at a scene cut."""
        rng = np.random.default_rng((self.seed, number, 1))
        video, frames = _sample_part(self.held_out, rng)
        if is_moving(video):
            return self._cut(video, frames, rng)
        return self._from_still(self.read(video, int(rng.integers(frames.start, frames.stop))), rng)

    def read(self, video: Video, index: int) -> Image:
        """A frame at the common size."""
        image = video.image(index)
        height, width = image.shape[:2]
        if self.size_for is not None and self.size_for((height, width)) != self.size:
            image = crop_middle(image, self.size)
        return resize_image(image, self.size)

    def follow(self, images: list[Image]) -> UnlabeledClip | None:
        """Images as a clip with its flows; None if there is a scene cut between them."""
        views = self._make_views(images)
        steps = [estimate_step(self.motion, before, now) for before, now in pairwise(views)]
        if any(step.is_cut for step in steps):
            return None
        return UnlabeledClip(images, [step.flow for step in steps], views, self.motion)

    def _cut(self, video: Video, frames: range, rng: np.random.Generator) -> UnlabeledClip | None:
        """Consecutive frames from a range of a video; None if they do not show one scene in motion."""
        if not is_moving(video) or len(frames) < MIN_CLIP_FRAMES:
            return None
        length = min(self.max_interval + 1, len(frames))
        start = frames.start + int(rng.integers(0, len(frames) - length + 1))
        return self.follow([self.read(video, start + at) for at in range(length)])

    def _from_still(self, image: Image, rng: np.random.Generator) -> UnlabeledClip:
        labels = self.runtime.labels(self.runtime.full(self.runtime.prepare(image)).logits, self.size)
        movable = tuple(int(class_id) for class_id in np.unique(labels))
        transform = sample_transform(replace(ZOOM_ALONE, crop=self.size), self.size, 1.0, rng)
        frames, _ = clip_from_still(image, labels, self.max_interval + 1, STILL_MOTION, movable, transform, rng)
        images = list(frames)
        still = images[:1] * 2
        return self.follow(images) or UnlabeledClip(still, [None], self._make_views(still), self.motion)

    def _make_views(self, images: Sequence[Image]) -> list[View]:
        return [make_view(Frame(image), self.motion.view_width) for image in images]


def crop_middle(image: Image, shape: tuple[int, int]) -> Image:
    """The largest middle part of an image that has the proportions of `shape`."""
    scale = min(image.shape[0] / shape[0], image.shape[1] / shape[1])
    height, width = (max(1, round(scale * side)) for side in shape)
    top, left = (image.shape[0] - height) // 2, (image.shape[1] - width) // 2
    return np.ascontiguousarray(image[top : top + height, left : left + width])


def _split(videos: Sequence[Video]) -> tuple[list[_Part], list[_Part]]:
    """Split into frames to learn from and frames to hold out.

    Of many videos, hold out the last ones: unseen scenes are a better check than later frames of seen ones. Of few,
    hold out the end of each, or the last videos if they are too short for that.
    """
    train: list[_Part] = []
    held_out: list[_Part] = []
    if len(videos) >= MIN_VIDEOS_TO_SPLIT:
        return _split_whole(videos)
    for video in videos:
        end = max(1, round(len(video) * (1 - HELD_OUT)))
        train.append(_Part(video, range(end)))
        if len(video) - end >= (MIN_CLIP_FRAMES if is_moving(video) else 1):
            held_out.append(_Part(video, range(end, len(video))))
    return _split_whole(videos) if not held_out and len(videos) > 1 else (train, held_out)


def _split_whole(videos: Sequence[Video]) -> tuple[list[_Part], list[_Part]]:
    first = min(len(videos) - 1, round(len(videos) * (1 - HELD_OUT)))
    whole = [_Part(video, range(len(video))) for video in videos]
    return whole[:first], whole[first:]


def _sample_part(parts: Sequence[_Part], rng: np.random.Generator) -> _Part:
    """Sample a part. Parts of longer videos are sampled more often."""
    lengths = np.array([len(part.video) for part in parts])
    return parts[int(rng.choice(len(lengths), p=lengths / lengths.sum()))]
