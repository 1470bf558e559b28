"""Readers of frames: their base class, folders of images, cameras."""

from __future__ import annotations

import itertools
import re
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from PIL import Image as PillowImage

from stmg.errors import DataError, SettingsError, SourceLostError, VideoError
from stmg.video.addresses import IMAGE_SUFFIXES
from stmg.video.frames import MAX_FILE_PIXELS, Frame, Image, as_frame, check_size

MIN_RATE, MAX_RATE = 0.001, 480.0
"""Plausible FPS. FFmpeg may take the ticks of a clock for frames."""
MAX_DAMAGED = 100  # consecutive damaged frames (a few seconds) after which a camera counts as lost


class Reader(ABC):
    """Reads a source. The caller opens it; then one thread reads and closes it."""

    live = False
    fps: float | None = None
    num_frames: int | None = None
    size: tuple[int, int] | None = None
    damaged: str | None = None

    def __init__(self, name: str) -> None:
        self.name = name
        self.stopped = threading.Event()

    @abstractmethod
    def frames(self, every: int) -> Generator[Frame]:
        """Yield every `every`th frame, until the end or until `stopped` is set."""

    def close(self) -> None:  # noqa: B027  nothing to do by default
        """Close the source."""


class Images(Reader):
    """Image files as the frames of a video."""

    def __init__(self, name: str, paths: list[Path], fps: float | None) -> None:
        super().__init__(name)
        self._paths = sorted((path for path in paths if path.suffix.lower() in IMAGE_SUFFIXES), key=natural_order)
        if not self._paths:
            raise VideoError(f"{name} holds no images; their names must end in {', '.join(IMAGE_SUFFIXES)}")
        self.fps, self.num_frames = fps, len(self._paths)
        with suppress(OSError, ValueError, cv2.error):  # unreadable frames raise when they are reached
            height, width = _read_image(self._paths[0]).shape[:2]
            self.size = height, width

    def frames(self, every: int) -> Generator[Frame]:
        skipped, first = 0, ""
        chosen = range(0, len(self._paths), every)
        for index in chosen:
            try:
                image = _read_image(self._paths[index])
            except (OSError, ValueError, cv2.error) as error:
                skipped, first = skipped + 1, first or f"{self._paths[index]}: {error}"
                self.damaged = f"{skipped} images were skipped, the first is {first}"
                continue
            yield Frame(image, index, None if self.fps is None else index / self.fps)
        if skipped == len(chosen):
            raise VideoError(f"{self.name} holds no image that can be read; {first}")


class Camera(Reader):
    """A camera of this machine."""

    live = True

    def __init__(self, number: int) -> None:
        super().__init__(f"camera {number}")
        with quiet_opencv():  # OpenCV would report every failed attempt
            self._capture = cv2.VideoCapture(number)
        if not self._capture.isOpened():
            raise VideoError(f"{self.name} is not available; plug it in, or close the program that uses it")
        height = int(self._capture.get(cv2.CAP_PROP_FRAME_HEIGHT))
        width = int(self._capture.get(cv2.CAP_PROP_FRAME_WIDTH))
        self.size = (height, width) if height and width else None
        self.fps = check_rate(self._capture.get(cv2.CAP_PROP_FPS))

    def frames(self, every: int) -> Generator[Frame]:
        begun, lost = time.monotonic(), VideoError
        skipped = in_a_row = 0
        for index in itertools.count():
            if self.stopped.is_set():
                return
            if not self._capture.grab():
                raise lost(f"{self.name} delivers no more frames; check its cable")
            moment = time.monotonic() - begun
            if index % every:
                continue
            complete, image = self._capture.retrieve()
            if complete:
                in_a_row, lost = 0, SourceLostError
                yield Frame(_from_bgr(image), index, moment)
                continue
            skipped, in_a_row = skipped + 1, in_a_row + 1
            self.damaged = f"{self.name}: {skipped} damaged frame{'s were' if skipped > 1 else ' was'} skipped"
            if in_a_row == MAX_DAMAGED:
                raise lost(f"{self.name} delivers frames that cannot be decoded, {in_a_row} in a row; check its cable")

    def close(self) -> None:
        self._capture.release()


def check_rate(rate: Any) -> float | None:
    """The declared FPS; None if not declared or not plausible."""
    return float(rate) if rate and MIN_RATE <= rate <= MAX_RATE else None


@contextmanager
def quiet_opencv() -> Iterator[None]:
    """Silence OpenCV's messages to standard error about problems that are raised as errors anyway."""
    verbosity = cv2.utils.logging.setLogLevel(0)
    try:
        yield
    finally:
        cv2.utils.logging.setLogLevel(verbosity)


def check_claimed_size(path: Path) -> None:
    """Raise for a too large image by its header, before memory is allocated for it."""
    try:
        with PillowImage.open(path) as image:
            size = image.height, image.width
    except PillowImage.DecompressionBombError as error:
        raise DataError(f"{path} is too large for an image: {error}") from None
    except (OSError, SyntaxError, ValueError):  # raised again when the image is read
        return
    try:
        check_size(size, "an image", MAX_FILE_PIXELS)
    except SettingsError as error:
        raise DataError(f"{path}: {error}") from None


def _read_image(path: Path) -> Image:
    check_claimed_size(path)
    data = np.fromfile(path, np.uint8)  # OpenCV cannot open every name on every system
    with quiet_opencv():
        image: Any = cv2.imdecode(data, cv2.IMREAD_COLOR | cv2.IMREAD_ANYDEPTH) if len(data) else None
    if image is None:
        raise VideoError("empty, cut off or not an image")
    return _from_bgr(image)


def _from_bgr(image: Any) -> Image:
    return as_frame(cv2.cvtColor(image, cv2.COLOR_BGR2RGB)).image


def natural_order(path: Path) -> tuple[list[str | int], str]:
    """A sort key that compares numbers inside names by value: frame2 before frame10."""
    parts = re.split(r"(\d+)", str(path).lower())
    return [int(part) if position % 2 else part for position, part in enumerate(parts)], str(path)
