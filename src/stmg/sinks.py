"""Sinks: what is kept of a run, as an overlay video, label images, records and a picture of its course."""

from __future__ import annotations

import errno
import io
import json
import math
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple, Self

import av
import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image as PillowImage

from stmg.state import FrameResult


class Sink(ABC):
    """Takes the results of a stream one by one, until it is closed."""

    @abstractmethod
    def write(self, result: FrameResult) -> None: ...

    @abstractmethod
    def close(self) -> None:
        """Finish what was written; closing twice does no harm."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        try:
            self.close()
        except OSError:
            if kind is None:  # else the caller should see what went wrong first
                raise


class Sinks(Sink):
    """Several sinks as one. When some fail the others get their turn; then the first error is raised."""

    def __init__(self, *sinks: Sink) -> None:
        self.sinks = sinks

    def write(self, result: FrameResult) -> None:
        _for_all(self.sinks, lambda sink: sink.write(result))

    def close(self) -> None:
        _for_all(self.sinks, lambda sink: sink.close())


class FileSink(Sink):
    """A sink to one path. An error closes it, so that what is already there stays as it is."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._closed = False

    def write(self, result: FrameResult) -> None:
        if self._closed:
            raise ValueError(f"{self.path} is closed and takes no more frames")
        with _naming(self.path):
            try:
                self._write(result)
            except (OSError, av.FFmpegError):
                self._closed = True
                with suppress(OSError, av.FFmpegError):
                    self._finish()
                raise

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            with _naming(self.path):
                self._finish()

    @abstractmethod
    def _write(self, result: FrameResult) -> None: ...

    def _finish(self) -> None:
        """Write what is still held back and let go of the file."""


class _VideoFormat(NamedTuple):
    """How an overlay video is written."""

    encoders: tuple[str, ...]
    """The first this FFmpeg has is taken."""
    options: dict[str, str]
    """For the container: each few seconds are on disk and playable, whatever happens to the process later."""


_MP4 = {"movflags": "frag_keyframe+empty_moov+default_base_moof", "flush_packets": "1"}
_CLUSTERS = {"cluster_time_limit": "2000", "flush_packets": "1"}
VIDEO_FORMATS = {
    ".mp4": _VideoFormat(("libx264", "mpeg4"), _MP4),
    ".mkv": _VideoFormat(("libx264", "mpeg4"), _CLUSTERS),
    ".webm": _VideoFormat(("libvpx-vp9", "libvpx"), _CLUSTERS),
    ".avi": _VideoFormat(("mpeg4",), {"flush_packets": "1"}),
}
ENCODER_OPTIONS = {
    "libx264": {"preset": "veryfast", "tune": "zerolatency", "crf": "20"},
    "mpeg4": {"flags": "+qscale", "global_quality": str(4 * 118)},  # 118 units of FFmpeg's scale make one
    "libvpx-vp9": {"deadline": "realtime", "cpu-used": "8", "lag-in-frames": "0", "crf": "30", "b": "0"},
    "libvpx": {"deadline": "realtime", "cpu-used": "8", "crf": "20", "b": "4M"},
}


class OverlayVideo(FileSink):
    """Frames with their labels drawn over them, as a video; the ending of `path` says of which kind.

    Frames are shown at their own times where they have them, else `fps` a second. All are brought to the size
    of the first, an odd edge repeated to make it even. A killed process leaves all but the last seconds.
    """

    def __init__(self, path: str | Path, fps: float, opacity: float = 0.5) -> None:
        super().__init__(path)
        if self.path.suffix.lower() not in VIDEO_FORMATS:
            raise ValueError(f"{path}: the name of an overlay video ends in {', '.join(VIDEO_FORMATS)}")
        if not 0.001 <= fps <= 1000 or not 0 <= opacity <= 1:
            raise ValueError(f"fps is from 0.001 to 1000 and opacity from 0 to 1; got {fps=}, {opacity=}")
        self.opacity = opacity
        self._format = VIDEO_FORMATS[self.path.suffix.lower()]
        self._encoder = next(filter(_can_encode, self._format.encoders), None)
        if self._encoder is None:
            raise ValueError(f"{path}: this FFmpeg lacks {' and '.join(self._format.encoders)}; try .mp4 or .avi")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        # MPEG-4 counts at most 65535 ticks a second. AVI knows no times but whole frames.
        self._rate = Fraction(fps).limit_denominator(min(1001, int(60000 / fps)))
        self._tick = 1 / self._rate if self.path.suffix.lower() == ".avi" else Fraction(1, 60000)
        self._container: Any = None
        self._stream: Any = None
        self._size = (0, 0)
        self._begun: float | None = None
        self._last = -1

    def _write(self, result: FrameResult) -> None:
        image: Any = result.overlay(self.opacity)
        if self._container is None:
            self._begin(*image.shape[:2])
        if image.shape[:2] != self._size:
            image = cv2.resize(image, self._size[::-1], interpolation=cv2.INTER_AREA)
        even = np.pad(image, ((0, self._size[0] % 2), (0, self._size[1] % 2), (0, 0)), mode="edge")
        frame = av.VideoFrame.from_ndarray(even, format="rgb24")
        frame.pts, frame.time_base = self._timestamp(result.time), self._tick
        self._container.mux(self._stream.encode(frame))

    def _begin(self, height: int, width: int) -> None:
        """Nothing is opened before the first frame, so a run without frames leaves no broken file."""
        self._size = (height, width)
        self._container = av.open(str(self.path.absolute()), "w", options=self._format.options)
        self._stream = self._container.add_stream(self._encoder, rate=self._rate)
        self._stream.options = ENCODER_OPTIONS[str(self._encoder)]
        self._stream.width, self._stream.height = width + width % 2, height + height % 2
        self._stream.pix_fmt = "yuv420p"
        coder = self._stream.codec_context
        coder.time_base, coder.thread_count = self._tick, 2
        coder.gop_size, coder.max_b_frames = max(1, round(2 * self._rate)), 0

    def _timestamp(self, time: float | None) -> int:
        """In ticks, always growing: the frame's own time if that goes on, else one frame after the last."""
        following = 0 if self._last < 0 else self._last + max(1, round(1 / (self._rate * self._tick)))
        if time is None:
            wished = following
        else:
            self._begun = time - float(following * self._tick) if self._begun is None else self._begun
            wished = round((time - self._begun) / self._tick)
        self._last = wished if wished > self._last else following
        return self._last

    def _finish(self) -> None:
        if self._container is not None:
            container, self._container = self._container, None
            try:
                container.mux(self._stream.encode(None))
            finally:
                container.close()


class LabelImages(FileSink):
    """One PNG per frame, named by its index: class ids as they are, shown in the colours of the palette.

    A file appears only when it is complete. Ids without a colour, 255 among them, are white.
    """

    def __init__(self, folder: str | Path, palette: NDArray[np.uint8]) -> None:
        super().__init__(folder)
        self.path.mkdir(parents=True, exist_ok=True)
        for old in self.path.glob("[0-9]" * 6 + ".png"):  # of an earlier, longer video
            old.unlink()
        table = np.full((256, 3), 255, np.uint8)
        table[: min(len(palette), 255)] = palette[:255]
        self._palette = table.tobytes()

    def _write(self, result: FrameResult) -> None:
        picture = PillowImage.fromarray(result.labels)
        picture.putpalette(self._palette)
        data = io.BytesIO()
        picture.save(data, "PNG")
        replace_file(self.path / f"{result.index:06d}.png", data.getvalue())


class Records(FileSink):
    """One line of JSON per frame, on disk as soon as the frame is done."""

    def __init__(self, path: str | Path) -> None:
        super().__init__(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with _naming(self.path):
            self._file = io.FileIO(self.path, "wb")  # unbuffered: each line is handed over whole
        self._complete = 0

    def _write(self, result: FrameResult) -> None:
        record = {
            "index": result.index,
            "time": _rounded(result.time, 6),
            "level": str(result.level),
            "reason": result.reason,
            "distortion": _rounded(result.distortion, 5),
            "drift": _rounded(result.drift, 5),
            "kept_blocks": result.kept_blocks,
            "keep": [int(kept) for kept in result.keep],
            "motion": result.motion,
            "macs": result.macs,
            "latency_ms": _rounded(result.latency_ms, 3),
        }
        line = json.dumps(record, ensure_ascii=False).encode() + b"\n"
        written = 0
        try:
            while written < len(line):  # a disk that is nearly full takes part of it without an error
                written += self._file.write(line[written:])
        except OSError:
            with suppress(OSError):
                self._file.truncate(self._complete)
            raise
        self._complete += len(line)

    def _finish(self) -> None:
        self._file.close()


def _for_all(sinks: tuple[Sink, ...], act: Callable[[Sink], None]) -> None:
    errors = []
    for sink in sinks:
        try:
            act(sink)
        except Exception as error:
            errors.append(error)
    if errors:
        raise errors[0]


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Makes every failure to write an `OSError` of one line that names the file."""
    try:
        yield
    except (OSError, av.FFmpegError) as error:
        number, reason = error.errno or errno.EIO, error.strerror or str(error)
        raise OSError(number, f"cannot write: {reason}", str(path)) from None


def replace_file(path: Path, data: bytes) -> None:
    """Write a file such that it is there as a whole or not at all."""
    part = path.with_name(f".{path.name}.part")
    try:
        part.write_bytes(data)
        os.replace(part, path)
    except OSError:
        part.unlink(missing_ok=True)
        raise


def _rounded(value: float | None, digits: int) -> float | None:
    return round(value, digits) if value is not None and math.isfinite(value) else None


def _can_encode(name: str) -> bool:
    try:
        return bool(av.codec.Codec(name, "w"))
    except av.codec.codec.UnknownCodecError:
        return False
