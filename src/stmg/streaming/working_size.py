"""Working size: a stream computed on smaller frames, with results at the original size."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any, NamedTuple

import cv2

from stmg.streaming.result import FrameResult
from stmg.video.frames import Frame, Image, as_frame, resize_image
from stmg.video.labels import resize_labels, resize_plane

ANY_SIZE = (360, 480)  # what a network that takes any size is shown and counted at, unless a size is given
MULTIPLE = 8  # of a fitted size: the coarsest features of most networks then keep their grid


def fit_size(own: tuple[int, int], source: tuple[int, int]) -> tuple[int, int] | None:
    """Find (H, W) with a model's own area and a source's aspect ratio; None if the source is no larger.

    Both sides are multiples of 8.
    """
    scale = math.sqrt(own[0] * own[1] / (source[0] * source[1]))
    if scale >= 1:
        return None
    height, width = (max(MULTIPLE, round(side * scale / MULTIPLE) * MULTIPLE) for side in source)
    return height, width


def choose_size(
    given: tuple[int, int] | None,
    own: tuple[int, int] | None,
    source: tuple[int, int] | None,
    fixed: tuple[int, int] | None,
) -> tuple[int, int] | None:
    """(H, W) to work at for frames of the size `source`, if it is known; None: as they are.

    given: the size that was asked for, if any.
    own: the size that the model is meant for, if it is known.
    fixed: the only size its network takes, if there is one; it is then meant for that.
    """
    size = given
    if given is None and source is not None and (fixed or own) is not None:
        size = fit_size(fixed or own, source)  # type: ignore[arg-type]
        size = size and (fixed or size)  # else frames would be stretched to it anyway
    return None if size == source else size


def shrink(frame: Frame, size: tuple[int, int]) -> Frame:
    """Resize a frame to the size to work at."""
    image = frame.image
    # Averaging pairs is several times as fast as averaging over odd areas; what is left is less than a factor of two.
    while image.shape[0] >= 2 * size[0] and image.shape[1] >= 2 * size[1]:
        image = resize_image(image, (image.shape[0] // 2, image.shape[1] // 2))
    if image.shape[:2] != size:
        image = cv2.resize(image, size[::-1], interpolation=cv2.INTER_LINEAR)
    return replace(frame, image=image)


class Original(NamedTuple):
    """A frame at its own size, kept until the result of the resized one comes."""

    image: Image
    resize_ms: float
    """Time to resize it, in milliseconds."""


SizeFor = Callable[[tuple[int, int]], tuple[int, int] | None]
"""(H, W) at which to compute frames of a size; None: as they are."""


def fit_frame(value: Any, size_for: SizeFor) -> tuple[Frame, Original | None]:
    """A frame at the size to work at, and what `restore` needs of it; None if it has that size already."""
    frame = as_frame(value)
    size = size_for(frame.size)
    if size is None:
        return frame, None
    started = time.perf_counter()
    small = shrink(frame, size)
    return small, Original(frame.image, 1000 * (time.perf_counter() - started))


def restore(result: FrameResult, original: Original | None) -> FrameResult:
    """Resize a result to the frame's original size; each pixel takes the nearest label.

    Its latency then covers resizing both ways.
    """
    if original is None:
        return result
    started = time.perf_counter()
    size = original.image.shape[0], original.image.shape[1]
    probability = None if result.probability is None else resize_plane(result.probability, size)
    labels = resize_labels(result.labels, size)
    latency = result.latency_ms + original.resize_ms + 1000 * (time.perf_counter() - started)
    return replace(result, image=original.image, labels=labels, probability=probability, latency_ms=latency)


def stream_at_size(
    stream: Callable[[Iterable[Any]], Iterator[FrameResult]], frames: Iterable[Any], size_for: SizeFor
) -> Iterator[FrameResult]:
    """Run a stream at the size that `size_for` gives each frame, and give its results at their original size.

    stream: gives one result per frame, in order.
    """
    waiting: deque[Original | None] = deque()

    def resized() -> Iterator[Frame]:
        for value in frames:
            frame, original = fit_frame(value, size_for)
            waiting.append(original)
            yield frame

    with closing(stream(resized())) as results:  # type: ignore[type-var]
        for result in results:
            yield restore(result, waiting.popleft())
