"""Logits as numpy arrays: checked, turned into labels or a probability, warped and fused with earlier ones."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from stmg.errors import ModelError, SettingsError
from stmg.streaming.flow import Flow, Map, warp
from stmg.streaming.values import read_activation, read_threshold
from stmg.video.frames import Image
from stmg.video.labels import IGNORE, MAX_CLASSES, Labels, find_best, resize_plane

Array = NDArray[np.float32]

THRESHOLD = 0.5
TOLERANCE = 1e-3  # by which probabilities may leave 0 to 1: a graph may resize them with an overshoot
MIN_SHARE_BELOW = 0.02  # of the highest logit, that the lowest is below 0


@dataclass(frozen=True)
class Foreground:
    """The user's choice of how to read the single channel of a foreground or matting network; None if not stated.

    activation: logits or probability.
    threshold: the probability above which a pixel is foreground.
    """

    activation: str | None = None
    threshold: float | None = None

    def __post_init__(self) -> None:
        for name, read in (("activation", read_activation), ("threshold", read_threshold)):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, read(name, value))

    def check_channels(self, channels: int) -> None:
        """Raise an error if something is stated that a network of so many channels has no use for; 0: labels."""
        for argument, value in asdict(self).items():
            if value is not None and channels != 1:
                raise SettingsError(
                    f"{argument}={value!r} is for networks of one channel; this one gives {channels or 'labels'}"
                    f"{' classes' * (channels > 1)}"
                )


def as_array(output: Any) -> NDArray[Any]:
    """Convert a function's output to float logits (C, h, w) or integer labels (H, W). Anything else raises an error.

    A PyTorch tensor becomes numpy, a batch of one loses its first axis, and labels lose every axis of one. A mask of
    booleans is a single channel of probability.
    """
    if hasattr(output, "detach"):
        output = output.detach().cpu().numpy()
    array = np.asarray(output)
    if array.ndim == 4 and len(array) == 1:
        array = array[0]
    if array.dtype == bool:
        array = _drop_axes_of_one(array)
        if array.ndim != 2:
            raise ModelError(f"a network returns one mask (H, W) as booleans; got {array.shape}: return labels instead")
        return array[None].astype(np.float32)
    if np.issubdtype(array.dtype, np.integer):
        array = _drop_axes_of_one(array)
    if array.ndim == 2 and np.issubdtype(array.dtype, np.integer):
        if array.dtype != np.uint8 and array.size and not 0 <= array.min() <= array.max() <= IGNORE:
            raise ModelError(f"labels are bytes; the network gave {array.min()} to {array.max()}")
        return array
    if array.ndim != 3 or not np.issubdtype(array.dtype, np.floating):
        raise ModelError(
            "a network returns logits (C, h, w) as floats or labels (H, W) as integers; "
            f"got {array.dtype} of shape {array.shape}"
        )
    return array.astype(np.float32, copy=False)


def _drop_axes_of_one(array: NDArray[Any]) -> NDArray[Any]:
    """Convert a mask or labels of (1, H, W) or (H, W, 1) to (H, W)."""
    while array.ndim > 2 and 1 in (array.shape[0], array.shape[-1]):
        array = array[0] if len(array) == 1 else array[..., 0]
    return array


MAX_STRETCH = 3.0  # by which the shape of a map may differ from the shape of its image, and still be taken for one


def put_channels_first(array: NDArray[Any], image: tuple[int, int]) -> NDArray[Any]:
    """Logits (C, h, w) from such or (h, w, C), told apart by the size of the image (H, W) they are of."""
    if array.ndim != 3:
        return array
    first, last = array.shape[1:], array.shape[:2]
    if _is_strided(first, image) or len(array) == 1:
        return array
    is_last = last == image
    if not is_last and first[0] != first[1]:  # networks for squares alone are many
        is_last = _is_strided(last, image) or last[0] == last[1]
        if not is_last and min(_stretch(first, image), _stretch(last, image)) > MAX_STRETCH:
            raise ModelError(
                f"a network returns logits (C, h, w); got {array.shape} for an image of {image[0]}x{image[1]}, "
                "of which no two axes have the shape"
            )
        is_last = is_last or _stretch(first, image) > MAX_STRETCH
    return np.ascontiguousarray(array.transpose(2, 0, 1)) if is_last else array


def _is_strided(sides: tuple[int, ...], image: tuple[int, int]) -> bool:
    """True if a map has the size of an image, or that size divided by a power of two up to 32, rounded up or down."""
    return any(
        all(abs(side - whole / stride) < 1 for side, whole in zip(sides, image, strict=True))
        for stride in (1, 2, 4, 8, 16, 32)
        if min(image) >= 8 * stride or stride == 1
    )


def _stretch(sides: tuple[int, ...], image: tuple[int, int]) -> float:
    ratio = (sides[0] * image[1]) / max(1, sides[1] * image[0])
    return max(ratio, 1 / max(ratio, 1e-9))


def check_finite(is_finite: bool) -> None:
    """Raise an error if logits are not finite."""
    if not is_finite:
        raise ModelError("the network's logits are not finite: its weights or its input are broken")


def argmax_labels(logits: Array, size: tuple[int, int]) -> Labels:
    """Find the best class (H, W) of logits (C, h, w), upsampled to `size`. Raises if they are not logits of labels."""
    if len(logits) > MAX_CLASSES:
        raise ModelError(f"labels are bytes, so there can be at most {MAX_CLASSES} classes; got {len(logits)}")
    check_finite(_is_finite(logits))
    return find_best(logits, size)


def read_probability(channel: Array, size: tuple[int, int], activation: str) -> Map:
    """Read the foreground probability (H, W) from one channel (1, h, w) of logits or probability."""
    check_finite(_is_finite(channel))
    full = resize_plane(np.ascontiguousarray(channel[0], np.float32), size)
    if activation == "probability":
        return np.clip(full, 0, 1)
    probability: Map = 1 / (1 + cv2.exp(np.clip(-full, -80, 80)))  # beyond, the exponential overflows
    return probability


def guess_activation(channel: Array) -> str | None:
    """Guess probability if all values are within 0 and 1, logits if some are well below 0, else None.

    Foreground logits lie about equally below and above 0. Depth, distances and byte masks do not.
    """
    lowest, highest = float(channel.min()), float(channel.max())
    if lowest >= -TOLERANCE and highest <= 1 + TOLERANCE:
        return "probability"
    return "logits" if lowest < -MIN_SHARE_BELOW * highest else None


def make_test_image(size: tuple[int, int]) -> Image:
    """Make a fixed image (H, W, 3), noise over a gradient, to test the output of a network."""
    height, width = size
    rows, columns = np.linspace(0, 200, height)[:, None], np.linspace(0, 55, width)
    noise = np.random.default_rng(0).integers(-60, 60, (height, width, 3))
    return np.clip((rows + columns)[:, :, None] + noise, 0, 255).astype(np.uint8)


def warp_maps(maps: Array, flow: Flow | None) -> Array:
    """Maps (C, h, w) warped along a flow."""
    if flow is None:
        return maps
    _, height, width = maps.shape
    channels_last: Any = warp(np.ascontiguousarray(maps.transpose(1, 2, 0)), flow)
    # OpenCV drops the axis of a single channel.
    warped: Array = channels_last.reshape(height, width, -1).transpose(2, 0, 1)
    return np.ascontiguousarray(warped)


def fuse_logits(now: Array, before: Array, flow: Flow | None, share: Map) -> Array:
    """Logits (C, h, w) averaged with earlier ones, warped along a flow, whose weight is `share` (any h, any w)."""
    size = before.shape[1:]
    then = warp_maps(before, flow)
    now = np.stack([resize_plane(plane, size) for plane in now])
    out: Array = now + resize_plane(share, size) * (then - now)
    return np.ascontiguousarray(out, np.float32)


def _is_finite(logits: Array) -> bool:
    return bool(np.isfinite(logits.sum(dtype=np.float64)))
