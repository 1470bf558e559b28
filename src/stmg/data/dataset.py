"""Datasets: videos with labels on some of their frames, and what the labels mean."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from stmg.frames import Image
from stmg.state import Labels


class DataError(ValueError):
    """Data that cannot be used; the message names the file and says what to do."""


class Video(Protocol):
    """Frames of one drive in order, some of them labelled; wherever they come from."""

    @property
    def name(self) -> str: ...

    @property
    def rate(self) -> float | None:
        """Frames a second; None if they are stills or it is unknown."""

    @property
    def labelled(self) -> Sequence[int]:
        """Places of the frames that have labels."""

    def __len__(self) -> int: ...

    def image(self, place: int, size: tuple[int, int] | None = None) -> Image:
        """RGB (H, W, 3), resized to `size` if given."""

    def truth(self, place: int, size: tuple[int, int] | None = None) -> Labels | None:
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

    def labelled(self, split: str) -> Iterator[tuple[Video, int]]:
        """Every labelled frame of a split as (video, place)."""
        for video in self.videos(split):
            for place in video.labelled:
                yield video, place
