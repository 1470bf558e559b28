"""Small videos and images of a moving texture, the same bytes each time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import av
import cv2
import numpy as np
from numpy.typing import NDArray

Image = NDArray[np.uint8]

CODECS = {".mp4": "libx264", ".mkv": "mpeg4", ".ts": "libx264", ".webm": "libvpx", ".avi": "mjpeg"}
_TEXTURE = np.random.default_rng(0).integers(0, 255, (32, 64, 3), np.uint8)


def picture(index: int, size: tuple[int, int], seed: int = 0) -> Image:
    """(H, W, 3) RGB: the texture moves right by two pixels a frame; each seed starts elsewhere."""
    height, width = size
    texture = _TEXTURE.repeat(8, 0).repeat(8, 1)
    texture = np.roll(texture, (24 * seed, 40 * seed + 2 * index), (0, 1))
    return np.ascontiguousarray(np.tile(texture, (-(-height // 256), -(-width // 512), 1))[:height, :width])


def write_video(
    path: Path, num_frames: int, size: tuple[int, int], rate: int = 25, seed: int = 0, begin: float = 0.0
) -> Path:
    """Write a video whose first frame has timestamp `begin` in seconds; the suffix chooses the format."""
    codec = CODECS[path.suffix]
    with av.open(str(path), "w") as container:
        stream: Any = container.add_stream(codec, rate=rate)
        stream.height, stream.width = size
        stream.pix_fmt = "yuvj420p" if codec == "mjpeg" else "yuv420p"
        stream.codec_context.thread_count = 1
        if codec == "libx264":
            stream.options = {"preset": "ultrafast", "g": "12", "crf": "18"}
        for index in range(num_frames):
            frame = av.VideoFrame.from_ndarray(picture(index, size, seed), format="rgb24")
            frame.pts = index + round(begin * rate)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path


def write_images(folder: Path, num_images: int, size: tuple[int, int], suffixes: tuple[str, ...] = (".png",)) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for index in range(num_images):
        path = folder / f"{index:03d}{suffixes[index % len(suffixes)]}"
        cv2.imwrite(str(path), picture(index, size)[:, :, ::-1])
    return folder


def write_labels(folder: Path, num_images: int, size: tuple[int, int], num_classes: int) -> Path:
    """Label PNGs, named as the images of `write_images`: classes in vertical stripes, one row without a class."""
    folder.mkdir(parents=True, exist_ok=True)
    for index in range(num_images):
        labels = np.broadcast_to((np.arange(size[1]) // 8 + index) % num_classes, size).astype(np.uint8)
        labels[0] = 255
        cv2.imwrite(str(folder / f"{index:03d}.png"), labels)
    return folder


def count_frames(path: Path) -> tuple[int, float]:
    """The number of frames that can be decoded, and the time of the last in seconds."""
    number, last = 0, 0.0
    with av.open(str(path)) as container:
        try:
            for frame in container.decode(video=0):
                number, last = number + 1, frame.time or 0.0
        except av.FFmpegError:
            pass
    return number, last
