"""Frames: convert a caller's image (numpy, torch, PIL, PyAV, OpenCV) to RGB, with its index in the stream."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from stmg.errors import FrameError, SettingsError, VideoError

Image = NDArray[np.uint8]
COLORS = ("rgb", "bgr")
"""Orders of the channels of an image. OpenCV uses BGR. Everything here is RGB unless noted."""
MAX_SIDE, MAX_PIXELS = 32766, 1 << 26
"""Limits of a frame to compute. OpenCV warps no longer side, and a network needs tens of gigabytes for more pixels. 8K
has half as many."""
MAX_FILE_PIXELS = 1 << 28
"""Limit of an image to read, because a file of a few bytes may claim any size."""


def check_size(size: Iterable[int], name: str = "size", most: int = MAX_PIXELS) -> tuple[int, int]:
    """Convert a height and width to integers. Raise if they are no size of a frame, or too large for any machine."""
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
    """RGB, uint8, (H, W, 3); BGR if `color` is bgr."""
    index: int | None = None
    """Position in the source, counting every decoded frame; None if unknown."""
    time: float | None = None
    """Seconds since the start of the source; None if unknown."""
    color: str = "rgb"
    """rgb, or bgr as in OpenCV. It determines how the image is read."""

    @property
    def size(self) -> tuple[int, int]:
        """(height, width)."""
        return self.image.shape[0], self.image.shape[1]


def check_color(color: str) -> str:
    """Raise for an unknown order of channels; otherwise return it."""
    if color not in COLORS:
        raise SettingsError(f"color is rgb, or bgr for frames of OpenCV; got {color!r}")
    return color


def as_frame(value: Any, color: str = "rgb") -> Frame:
    """Convert a caller's frame to a `Frame` in RGB.

    Takes uint8 arrays as numpy (H, W, 3) or torch (H, W, 3) or (3, H, W), a PIL image, a PyAV `VideoFrame`, or a
    `Frame`. Gray is repeated over three channels, an alpha channel is dropped, and 16-bit values keep their upper byte.
    Anything else raises an error with the reason.

    color: rgb, or bgr for arrays from OpenCV. All other types have their own order.
    """
    check_color(color)
    if isinstance(value, Frame):
        if value.color == "rgb":
            _refuse_color(color, "an stmg Frame says so itself, and this one is RGB")
            return value if _is_plain(value.image) else Frame(_as_rgb(value.image), value.index, value.time)
        return Frame(_as_rgb(value.image, check_color(value.color)), value.index, value.time)
    if hasattr(value, "to_ndarray"):  # a PyAV frame, recognized by attribute because this file must not import PyAV
        _refuse_color(color, "a PyAV frame knows its own")
        time = None if value.time is None else float(value.time)
        return Frame(turn_upright(value.to_ndarray(format="rgb24"), value), time=time)
    if hasattr(value, "getbands"):  # a PIL image, likewise
        _refuse_color(color, "a PIL image is RGB")
        has_range = value.mode[0] in "IF"  # values beyond 8 bits, which PIL would clip
        return Frame(_as_rgb(np.asarray(value if has_range else value.convert("RGB"))))
    if hasattr(value, "detach"):
        array = value.detach().cpu().numpy()
        if array.ndim == 3 and array.shape[0] in (1, 3, 4) and array.shape[2] not in (1, 3, 4):
            array = array.transpose(1, 2, 0)
        return Frame(_as_rgb(array, color))
    if isinstance(value, np.ndarray):
        return Frame(_as_rgb(value, color))
    raise FrameError(
        "a frame must be a numpy array, a torch tensor, a PIL image, a PyAV VideoFrame or an stmg Frame, "
        f"not {type(value).__name__}"
    )


def _refuse_color(color: str, why: str) -> None:
    if color != "rgb":
        raise FrameError(f"color={color!r} is for arrays; {why}: leave it out")


def read_capture(capture: Any) -> Iterator[Frame]:
    """Yield the frames of an open `cv2.VideoCapture`, which are BGR, to its end. The caller closes it."""
    if not capture.isOpened():
        raise VideoError("this cv2.VideoCapture is not open: its file or camera could not be read")
    return _read_frames(capture)


def _read_frames(capture: Any) -> Iterator[Frame]:
    while True:
        is_read, image = capture.read()
        if not is_read:
            return
        yield Frame(_as_rgb(image, "bgr"))


def turn_upright(image: NDArray[Any], picture: Any) -> Image:
    """Turn the image of a picture decoded by PyAV upright."""
    return np.ascontiguousarray(np.rot90(image, quarter_turns(picture)))


def quarter_turns(picture: Any) -> int:
    """Number of counterclockwise quarter turns that make a decoded picture upright, as phones mark it."""
    return round(getattr(picture, "rotation", 0) / 90) % 4


def resize_image(image: Image, size: tuple[int, int]) -> Image:
    """Resize a gray or RGB image to (H, W): averaged over areas to shrink, interpolated to grow."""
    if image.shape[:2] == size:
        return image
    shrinks = size[0] * size[1] < image.shape[0] * image.shape[1]
    out: Image = cv2.resize(image, size[::-1], interpolation=cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR)
    return out


def _is_plain(image: NDArray[Any]) -> bool:
    is_rgb = image.dtype == np.uint8 and image.ndim == 3 and image.shape[2] == 3
    return is_rgb and image.size > 0 and image.flags.c_contiguous


def _as_rgb(array: NDArray[Any], color: str = "rgb") -> Image:
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
    array = np.ascontiguousarray(array)
    return swap_red_and_blue(array) if color == "bgr" else array


def swap_red_and_blue(image: Image) -> Image:
    """Swap RGB and BGR, in new memory."""
    out: Image = cv2.cvtColor(image, cv2.COLOR_BGR2RGB)
    return out
