"""Short clips without labels: of a user's videos as they are, and of their frames as stills set in motion."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from stmg.data.augment import sample_look
from stmg.data.clips import is_moving
from stmg.data.dataset import Video
from stmg.data.options import Augment, Motion
from stmg.data.stills import clip_from_still
from stmg.errors import DataError
from stmg.streaming.continuity import find_step
from stmg.streaming.flow import Flow
from stmg.streaming.motion import MotionEstimator, make_view
from stmg.streaming.runtime import Runtime
from stmg.video.frames import Frame, Image

STILLS = Motion(zoom=0.04, pan=0.03, tilt=0.02, object_speed=0.03, max_gap=1)
CLOSER = (1.0, 1.4)  # how much nearer a still is seen, so that what comes into the frame is in the still
PLAIN = Augment(scale=CLOSER, flip=False, brightness=0, contrast=0, gamma=0, saturation=0, tint=0)
HELD_OUT = 0.2  # of each video, at its end


@dataclass(frozen=True)
class Clip:
    """Adjacent frames."""

    images: Sequence[Image]
    flows: Sequence[Flow | None]
    """From each frame but the first to the one before."""


class ClipSource:
    """Clips by their number, the same each time.

    longest: frames from the first to the last of a clip of a video.
    still_share: of the clips that are stills set in motion, so that a short video is not learned by heart.
    """

    def __init__(
        self,
        videos: Sequence[Video],
        runtime: Runtime,
        motion: MotionEstimator,
        size: tuple[int, int],
        longest: int,
        still_share: float,
        seed: int,
    ) -> None:
        self.videos = [video for video in videos if len(video)]
        if not self.videos:
            raise DataError("there is no frame to adapt to")
        self.runtime, self.motion, self.size = runtime, motion, size
        self.longest, self.still_share, self.seed = longest, still_share, seed

    def get(self, number: int) -> Clip:
        """A clip to learn from."""
        rng = np.random.default_rng((self.seed, number))
        video, learned = self._choose(rng)
        if rng.random() >= self.still_share:
            clip = self._cut(video, range(learned), rng)
            if clip is not None:
                return clip
        return self._from_still(video.image(int(rng.integers(0, learned)), self.size), rng)

    def get_held_out(self, number: int) -> Clip | None:
        """A clip of what is not learned from: of a moving video as it is, of stills set in motion."""
        rng = np.random.default_rng((self.seed, number, 1))
        video, learned = self._choose(rng)
        if is_moving(video):
            return self._cut(video, range(learned, len(video)), rng)
        if learned == len(video):
            return None
        return self._from_still(video.image(int(rng.integers(learned, len(video))), self.size), rng)

    def _choose(self, rng: np.random.Generator) -> tuple[Video, int]:
        """A video, longer ones more often, and how many of its frames are learned from."""
        lengths = np.array([len(video) for video in self.videos])
        video = self.videos[int(rng.choice(len(lengths), p=lengths / lengths.sum()))]
        return video, max(1, round(len(video) * (1 - HELD_OUT)))

    def _cut(self, video: Video, frames: range, rng: np.random.Generator) -> Clip | None:
        """Some of these frames of a video; None if they do not show one scene in motion."""
        if not is_moving(video) or len(frames) < 3:
            return None
        length = min(self.longest + 1, len(frames))
        start = frames.start + int(rng.integers(0, len(frames) - length + 1))
        return self._follow([video.image(start + at, self.size) for at in range(length)])

    def _from_still(self, image: Image, rng: np.random.Generator) -> Clip:
        labels = self.runtime.labels(self.runtime.full(self.runtime.prepare(image)).logits, self.size)
        movable = tuple(int(class_id) for class_id in np.unique(labels))
        look = sample_look(replace(PLAIN, crop=self.size), self.size, 1.0, rng)
        frames, _ = clip_from_still(image, labels, self.longest + 1, STILLS, movable, look, rng)
        images = list(frames)
        return self._follow(images) or Clip(images[:1] * 2, [None])

    def _follow(self, images: list[Image]) -> Clip | None:
        views = [make_view(Frame(image), self.motion.view_width) for image in images]
        steps = [find_step(self.motion, before, now) for before, now in pairwise(views)]
        if any(step.is_cut for step in steps):
            return None
        return Clip(images, [step.motion.flow for step in steps])
