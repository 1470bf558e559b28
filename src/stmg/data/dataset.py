"""Datasets: videos with labels on some of their frames, and the classes of the labels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from stmg.errors import DataError
from stmg.video.frames import Image
from stmg.video.labels import Labels


class Video(Protocol):
    """Frames of one drive in order, some of them labeled, wherever they come from."""

    @property
    def name(self) -> str: ...

    @property
    def rate(self) -> float | None:
        """Frames per second; None if they are stills or it is unknown."""

    @property
    def labeled(self) -> Sequence[int]:
        """Indices of the frames that have labels."""

    def __len__(self) -> int: ...

    def image(self, index: int, size: tuple[int, int] | None = None) -> Image:
        """RGB (H, W, 3), resized to `size` if given."""

    def truth(self, index: int, size: tuple[int, int] | None = None) -> Labels | None:
        """Labels (H, W) of a frame, checked, or None if it has none."""


@dataclass(frozen=True)
class Dataset:
    """Videos by split, and the classes of their labels."""

    name: str
    class_names: tuple[str, ...]
    palette: NDArray[np.uint8]
    """(C, 3) RGB."""
    splits: dict[str, tuple[Video, ...]]

    @property
    def num_classes(self) -> int:
        return len(self.class_names)

    def videos(self, split: str) -> tuple[Video, ...]:
        if split not in self.splits:
            raise DataError(f"{self.name} has no split {split!r}; there are {', '.join(self.splits)}")
        return self.splits[split]

    @property
    def training_videos(self) -> tuple[Video, ...]:
        """Videos of the split `train`, or all where there is none: no network learns from frames it is scored on."""
        splits = [self.splits["train"]] if "train" in self.splits else list(self.splits.values())
        return tuple(video for split in splits for video in split)

    def labeled(self, split: str) -> Iterator[tuple[Video, int]]:
        """Every labeled frame of a split as (video, index)."""
        for video in self.videos(split):
            for index in video.labeled:
                yield video, index
