"""A video file as training data: any frame by its number, exactly, and labels for some."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import av
import cv2
import numpy as np

from stmg.data.dataset import DataError
from stmg.data.files import LabelCode, resized_labels
from stmg.frames import Image
from stmg.state import Labels


@dataclass(frozen=True)
class VideoFile:
    """A video file, some of whose frames have a label file."""

    path: Path
    labels: dict[int, Path] = field(default_factory=dict)
    code: LabelCode = field(default_factory=lambda: LabelCode(254))

    @property
    def name(self) -> str:
        return self.path.stem

    @cached_property
    def labelled(self) -> Sequence[int]:
        beyond = [place for place in self.labels if place >= len(self)]
        if beyond:
            raise DataError(f"{self.labels[beyond[0]]} is for frame {beyond[0]}; {self.path} has {len(self)} frames")
        return sorted(self.labels)

    @property
    def rate(self) -> float | None:
        return self._index.rate

    def __len__(self) -> int:
        return len(self._index.stamps)

    def image(self, place: int, size: tuple[int, int] | None = None) -> Image:
        image = self._decoded(place)
        if size is not None and image.shape[:2] != size:
            image = cv2.resize(image, size[::-1], interpolation=cv2.INTER_AREA)
        return image

    def truth(self, place: int, size: tuple[int, int] | None = None) -> Labels | None:
        if place not in self.labels:
            return None
        labels, own = self.code.read(self.labels[place]), self._index.size
        if labels.shape != own:
            raise DataError(
                f"{self.labels[place]} is {labels.shape[0]}x{labels.shape[1]}, {self.path} {own[0]}x{own[1]}"
            )
        return labels if size is None else resized_labels(labels, size)

    def _decoded(self, place: int) -> Image:
        """From the last key frame before it on: what lies further back need not be decoded."""
        wanted = self._index.stamps[place]
        try:
            with av.open(str(self.path)) as container:
                stream = container.streams.video[0]
                container.seek(wanted, stream=stream)
                for picture in container.decode(stream):
                    if picture.pts is not None and picture.pts >= wanted:
                        return np.asarray(picture.to_ndarray(format="rgb24"), np.uint8)
        except (av.FFmpegError, OSError) as error:
            raise DataError(f"frame {place} of {self.path} cannot be read: {error}") from None
        raise DataError(f"frame {place} of {self.path} cannot be read: the video ends before it")

    @cached_property
    def _index(self) -> _Index:
        try:
            with av.open(str(self.path)) as container:
                if not container.streams.video:
                    raise DataError(f"{self.path} holds no video")
                stream = container.streams.video[0]
                stamps = sorted(packet.pts for packet in container.demux(stream) if packet.pts is not None)
                rate = float(stream.average_rate) if stream.average_rate else None
                index = _Index(stamps, rate, (stream.height, stream.width))
        except (av.FFmpegError, OSError) as error:
            raise DataError(f"{self.path} cannot be read as a video: {error}") from None
        if not index.stamps:
            raise DataError(f"{self.path} holds no frames")
        return index


@dataclass(frozen=True)
class _Index:
    stamps: list[Any]
    """When each frame is shown, in the container's own ticks; a frame's number is its place among them."""
    rate: float | None
    size: tuple[int, int]
