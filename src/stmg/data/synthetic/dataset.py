"""Rendered streets as a dataset: every frame labeled, no file needed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from stmg.data.camvid import CLASS_NAMES, PALETTE
from stmg.data.dataset import Dataset, Video
from stmg.data.synthetic.scene import Scene
from stmg.errors import DataError
from stmg.video.frames import Image, resize_image
from stmg.video.labels import Labels, resize_labels

SPACING = 5  # of the frames that count as labeled: neighbors look alike, and an epoch should not
FIRST_VAL_SEED = 900_000


@dataclass(frozen=True)
class RenderedVideo:
    """The first frames of a scene."""

    seed: int
    num_frames: int
    size: tuple[int, int]
    every_label: bool
    rate: float | None = 15.0

    @property
    def name(self) -> str:
        return f"street {self.seed}"

    @property
    def labeled(self) -> Sequence[int]:
        return range(0, self.num_frames, 1 if self.every_label else SPACING)

    def __len__(self) -> int:
        return self.num_frames

    def image(self, index: int, size: tuple[int, int] | None = None) -> Image:
        image, _ = self._frame(index)
        return image if size is None else resize_image(image, size)

    def truth(self, index: int, size: tuple[int, int] | None = None) -> Labels | None:
        _, labels = self._frame(index)
        return labels if size is None else resize_labels(labels, size)

    def _frame(self, index: int) -> tuple[Image, Labels]:
        if index not in self._last:  # image and truth are read one after the other
            self._last.clear()
            self._last[index] = self._scene.frame(index)
        return self._last[index]

    @cached_property
    def _last(self) -> dict[int, tuple[Image, Labels]]:
        return {}

    @property
    def _scene(self) -> Scene:
        return _make_scene(self.seed, self.size, choose_camera(self.seed))


def choose_camera(seed: int) -> str:
    """One street in four is seen by a camera that stands."""
    return "fixed" if seed % 4 == 3 else "drive"


@lru_cache(maxsize=100)  # of some 20 MB each
def _make_scene(seed: int, size: tuple[int, int], camera: str) -> Scene:
    return Scene(seed, size, camera)


def open_streets(name: str, num_frames: int = 60, size: tuple[int, int] = (360, 480)) -> Dataset:
    """`street:0-99`: the streets of these seeds to train on, and others, never among them, to validate on."""
    match = re.fullmatch(r"street:(\d+)-(\d+)", name)
    if match is None or int(match[1]) > int(match[2]) or int(match[2]) >= FIRST_VAL_SEED:
        raise DataError(f"{name} is not a range of rendered streets; street:0-99 is the first hundred seeds")

    def videos(seeds: range, every_label: bool) -> tuple[Video, ...]:
        return tuple(RenderedVideo(seed, num_frames, size, every_label) for seed in seeds)

    val = range(FIRST_VAL_SEED, FIRST_VAL_SEED + 4)
    splits = {"train": videos(range(int(match[1]), int(match[2]) + 1), False), "val": videos(val, True)}
    return Dataset("rendered streets", CLASS_NAMES, PALETTE, splits)
