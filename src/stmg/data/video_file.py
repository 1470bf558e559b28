"""A video file as training data: its frames by number, and labels for some of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from stmg.data.files import LabelCode
from stmg.errors import DataError
from stmg.video.frames import Image, resize_image
from stmg.video.labels import MAX_DATASET_CLASSES, Labels, resize_labels
from stmg.video.random_access import IndexedVideo


@dataclass(frozen=True)
class VideoFile:
    """A video file, some of whose frames have a label file."""

    path: Path
    labels: dict[int, Path] = field(default_factory=dict)
    code: LabelCode = field(default_factory=lambda: LabelCode(MAX_DATASET_CLASSES))

    @property
    def name(self) -> str:
        return self.path.stem

    @cached_property
    def labeled(self) -> Sequence[int]:
        beyond = [index for index in self.labels if index >= len(self)]
        if beyond:
            raise DataError(f"{self.labels[beyond[0]]} is for frame {beyond[0]}; {self.path} has {len(self)} frames")
        return sorted(self.labels)

    @property
    def rate(self) -> float | None:
        return self._video.fps

    def __len__(self) -> int:
        return len(self._video)

    def image(self, index: int, size: tuple[int, int] | None = None) -> Image:
        image = self._video.read(index)
        return image if size is None else resize_image(image, size)

    def truth(self, index: int, size: tuple[int, int] | None = None) -> Labels | None:
        if index not in self.labels:
            return None
        labels, (height, width) = self.code.read(self.labels[index]), self._video.size
        if labels.shape != (height, width):
            raise DataError(
                f"{self.labels[index]} is {labels.shape[0]}x{labels.shape[1]}, {self.path} {height}x{width}"
            )
        return labels if size is None else resize_labels(labels, size)

    @cached_property
    def _video(self) -> IndexedVideo:
        return IndexedVideo(self.path)
