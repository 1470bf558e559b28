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
    """Ordered frames of one drive from any source, some of them labeled."""

    @property
    def name(self) -> str: ...

    @property
    def rate(self) -> float | None:
        """FPS; None if unknown, or if the frames are stills."""

    @property
    def labeled(self) -> Sequence[int]:
        """Indices of the labeled frames."""

    def __len__(self) -> int: ...

    def image(self, index: int, size: tuple[int, int] | None = None) -> Image:
        """Read a frame as RGB (H, W, 3), resized to `size` if given."""

    def truth(self, index: int, size: tuple[int, int] | None = None) -> Labels | None:
        """Read and check the labels (H, W) of a frame; None if it has none."""


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
        """Videos of the split `train`, or all if there is none, so that no network is scored on what it learned."""
        splits = [self.splits["train"]] if "train" in self.splits else list(self.splits.values())
        return tuple(video for split in splits for video in split)

    def labeled(self, split: str) -> Iterator[tuple[Video, int]]:
        """Yield every labeled frame of a split as (video, index)."""
        for video in self.videos(split):
            for index in video.labeled:
                yield video, index
