"""Small videos of a texture that moves to the right."""

from __future__ import annotations

import threading
from pathlib import Path

import av
import numpy as np
import pytest
from numpy.typing import NDArray

from waiting import wait_for

STEP = 4  # pixels the picture moves to the right from frame to frame
TEXTURE = np.random.default_rng(0).integers(0, 255, (48, 100, 3), np.uint8).repeat(8, 0).repeat(8, 1)


def picture(index: int, height: int = 96, width: int = 128) -> NDArray[np.uint8]:
    left = TEXTURE.shape[1] - width - STEP * index
    return np.ascontiguousarray(TEXTURE[:height, left : left + width])


def clip(
    path: Path, num_frames: int = 30, size: tuple[int, int] = (96, 128), rotation: int = 0, **options: str
) -> Path:
    """A video of those pictures, marked, as phones do, to be shown rotated counterclockwise by so many degrees."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=25)
        stream.height, stream.width = size
        stream.pix_fmt = "yuv420p"
        if rotation:
            if not hasattr(stream, "set_display_rotation"):
                pytest.skip("this PyAV cannot write rotated videos")
            stream.set_display_rotation(rotation)
        stream.options = {"crf": "10", "g": "12", "bf": "0", **options}
        for index in range(num_frames):
            frame = av.VideoFrame.from_ndarray(picture(index, *size), format="rgb24")
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path


def is_picture(image: NDArray[np.uint8], index: int) -> bool:
    """Whether an image is the picture of this index and not of the one before or after."""
    errors = [np.abs(image.astype(int) - picture(near)).mean() for near in (index - 1, index, index + 1) if near >= 0]
    return bool(np.argmin(errors) == min(index, 1))


def written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def decoding_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "decode"]


def wait_until_none_decodes() -> None:
    """Whoever closes a source waits for its thread, but not for ever: a busy machine may take longer."""
    wait_for(decoding_threads, lambda threads: not threads)
