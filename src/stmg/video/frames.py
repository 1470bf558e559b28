"""Frames: whatever a caller holds (numpy, torch, PyAV) becomes an RGB image with its index in the stream."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from stmg.errors import FrameError, SettingsError

Image = NDArray[np.uint8]
MAX_SIDE, MAX_PIXELS = 32766, 1 << 26
"""Of a frame to compute: OpenCV warps no longer side, and a network would need tens of gigabytes for more pixels. 8K is
half of them."""
MAX_FILE_PIXELS = 1 << 28
"""Of an image to read: a file of a few bytes may claim any size."""


def check_size(size: Iterable[int], name: str = "size", most: int = MAX_PIXELS) -> tuple[int, int]:
    """A height and width as plain integers; refused if it is not the size of a frame, or too large for any machine."""
    try:
        height, width = map(operator.index, size)
    except (TypeError, ValueError):
        height = width = 0
    if min(height, width) < 1:
        raise SettingsError(f"{name} is a height and a width above 0; got {size!r}")
    if max(height, width) > MAX_SIDE or height * width > most:
        limit = f"{name} has sides up to {MAX_SIDE} and {most / 1e6:.0f} megapixels"
        raise SettingsError(f"{limit}; {height}x{width} is too large")
    return height, width


@dataclass(frozen=True, slots=True)
class Frame:
    """One image of a stream."""

    image: Image
    """RGB, uint8, (H, W, 3)."""
    index: int | None = None
    """Position in the source, counting every decoded frame; None if unknown."""
    time: float | None = None
    """Seconds since the start of the source; None if unknown."""

    @property
    def size(self) -> tuple[int, int]:
        """(height, width)."""
        return self.image.shape[0], self.image.shape[1]


def as_frame(value: Any) -> Frame:
    """Turn a caller's frame into a `Frame`.

    Accepted are RGB uint8 as numpy (H, W, 3) or torch (H, W, 3) or (3, H, W), a PyAV `VideoFrame`, and a `Frame`.
    Gray is repeated over the three channels, an alpha channel is dropped, 16-bit values keep their upper byte.
    Everything else is refused with the reason.
    """
    if isinstance(value, Frame):
        return value if _is_plain(value.image) else Frame(_as_rgb(value.image), value.index, value.time)
    if hasattr(value, "to_ndarray"):  # a PyAV frame; asking by attribute keeps this file free of PyAV
        time = None if value.time is None else float(value.time)
        return Frame(turn_upright(value.to_ndarray(format="rgb24"), value), time=time)
    if hasattr(value, "detach"):
        array = value.detach().cpu().numpy()
        if array.ndim == 3 and array.shape[0] in (1, 3, 4) and array.shape[2] not in (1, 3, 4):
            array = array.transpose(1, 2, 0)
        return Frame(_as_rgb(array))
    if isinstance(value, np.ndarray):
        return Frame(_as_rgb(value))
    raise FrameError(
        f"a frame must be a numpy array, a torch tensor, a PyAV VideoFrame or an stmg Frame, not {type(value).__name__}"
    )


def turn_upright(image: NDArray[Any], picture: Any) -> Image:
    """The image of a picture that PyAV decoded, turned as it is meant to be shown."""
    return np.ascontiguousarray(np.rot90(image, quarter_turns(picture)))


def quarter_turns(picture: Any) -> int:
    """By how many quarters a decoded picture is to be turned counterclockwise to be upright, as phones mark it."""
    return round(getattr(picture, "rotation", 0) / 90) % 4


def resize_image(image: Image, size: tuple[int, int]) -> Image:
    """An image, gray or RGB, at another size (H, W): averaged over areas to shrink, interpolated to grow."""
    if image.shape[:2] == size:
        return image
    shrinks = size[0] * size[1] < image.shape[0] * image.shape[1]
    out: Image = cv2.resize(image, size[::-1], interpolation=cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR)
    return out


def _is_plain(image: NDArray[Any]) -> bool:
    is_rgb = image.dtype == np.uint8 and image.ndim == 3 and image.shape[2] == 3
    return is_rgb and image.size > 0 and image.flags.c_contiguous


def _as_rgb(array: NDArray[Any]) -> Image:
    if array.ndim == 2:
        array = array[:, :, None]
    if array.ndim != 3 or array.shape[2] not in (1, 3, 4):
        raise FrameError(f"a frame has the shape (H, W, 3), (H, W, 4), (H, W, 1) or (H, W); got {array.shape}")
    if 0 in array.shape:
        raise FrameError(f"a frame needs at least one pixel; got {array.shape}")
    if array.dtype == np.uint16:
        array = (array >> 8).astype(np.uint8)
    if array.dtype != np.uint8:
        raise FrameError(
            f"a frame holds uint8 values from 0 to 255 (or uint16); got {array.dtype}. "
            "Scale it first: (image * 255).round().astype('uint8') if it runs from 0 to 1."
        )
    array = array[:, :, :3]
    if array.shape[2] == 1:
        array = np.repeat(array, 3, axis=2)
    return np.ascontiguousarray(array)
