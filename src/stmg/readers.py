"""Readers: one for each kind of source, each turning it into frames; `video.py` runs them in a thread."""

from __future__ import annotations

import glob
import itertools
import os
import re
import select
import sys
import threading
import time
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import av
import cv2
import numpy as np
from av.video.frame import PictureType
from av.video.reformatter import VideoReformatter

from stmg.frames import CodecVectors, Frame, Image, as_frame

IMAGE_ENDINGS = (".jpg", ".jpeg", ".png", ".tif", ".tiff", ".bmp")
LIVE_SCHEMES = ("rtsp", "rtsps", "rtp", "rtmp", "rtmps", "udp", "srt", "tcp")
NETWORK_TIMEOUT = 10.0  # seconds a network stream may take to open, or stay silent


class VideoError(ValueError):
    """A source that cannot be read; the message says why and what to do."""


class Reader:
    """One kind of source. It is opened by the caller, then read and closed by one thread."""

    live = False
    fps: float | None = None
    num_frames: int | None = None
    size: tuple[int, int] | None = None
    damaged: str | None = None
    keep_vectors = False

    def __init__(self, name: str) -> None:
        self.name = name
        self.stopped = threading.Event()

    def frames(self, every: int) -> Generator[Frame]:
        """Each `every`th frame, until the end or until `stopped` is set."""
        raise NotImplementedError

    def close(self) -> None:
        """Let go of what was opened."""


def reader_for(source: str | Path | int, fps: float | None, retries: int) -> Reader:
    text = str(source)
    camera = re.fullmatch(r"(?:camera:|/dev/video)(\d+)", text)
    if isinstance(source, int) or camera:
        return _Camera(int(camera[1] if camera else text))
    if text.startswith("camera:"):
        raise VideoError(f"{text}: a camera is named by its number, like camera:0")
    if text == "-" and sys.stdin.isatty():
        raise VideoError("standard input is a terminal; send a video into it, like: cat street.ts | stmg ...")
    if text == "-":
        stream = sys.stdin.buffer
        return _Container("standard input", stream if stream.seekable() else _Pipe(stream.fileno()))
    if "://" in text:
        return _Container(re.sub(r"//[^/@]*@", "//", text), text, retries)  # no passwords in messages
    path = Path(text)
    if path.is_dir():
        return _Images(text, [entry for entry in path.iterdir() if not entry.name.startswith(".")], fps)
    if path.is_file() and path.stat().st_size == 0:
        raise VideoError(f"{text} is empty; copy or record it again")
    if path.exists() and path.suffix.lower() in IMAGE_ENDINGS:
        return _Images(text, [path], fps)
    if path.exists():  # made absolute because FFmpeg takes a name with a colon in it for a protocol
        return _Container(text, str(path.absolute()))
    if glob.has_magic(text):
        return _Images(text, [Path(match) for match in glob.glob(text, recursive=True)], fps)
    raise VideoError(f"{text} does not exist; give a video file, a folder of images, a camera, a URL or -")


class _Images(Reader):
    """Image files as the frames of a video."""

    def __init__(self, name: str, paths: list[Path], fps: float | None) -> None:
        super().__init__(name)
        self._paths = sorted((path for path in paths if path.suffix.lower() in IMAGE_ENDINGS), key=_natural)
        if not self._paths:
            raise VideoError(f"{name} holds no images; their names must end in {', '.join(IMAGE_ENDINGS)}")
        self.fps, self.num_frames = fps, len(self._paths)

    def frames(self, every: int) -> Generator[Frame]:
        skipped: list[str] = []
        chosen = range(0, len(self._paths), every)
        for index in chosen:
            try:
                image = _read_image(self._paths[index])
            except (OSError, ValueError, cv2.error) as error:
                skipped.append(f"{self._paths[index]}: {error}")
                self.damaged = f"{len(skipped)} images were skipped, the first is {skipped[0]}"
                continue
            yield Frame(image, index, None if self.fps is None else index / self.fps)
        if len(skipped) == len(chosen):
            raise VideoError(f"{self.name} holds no image that can be read; {skipped[0]}")


class _Camera(Reader):
    """A camera of this machine."""

    live = True

    def __init__(self, number: int) -> None:
        super().__init__(f"camera {number}")
        verbosity = cv2.utils.logging.setLogLevel(0)  # OpenCV reports each way that failed on stderr
        self._capture = cv2.VideoCapture(number)
        cv2.utils.logging.setLogLevel(verbosity)
        if not self._capture.isOpened():
            raise VideoError(f"{self.name} is not available; plug it in, or close the program that uses it")
        height = int(self._capture.get(cv2.CAP_PROP_FRAME_HEIGHT))
        width = int(self._capture.get(cv2.CAP_PROP_FRAME_WIDTH))
        self.size = (height, width) if height and width else None
        self.fps = self._capture.get(cv2.CAP_PROP_FPS) or None

    def frames(self, every: int) -> Generator[Frame]:
        begun = time.monotonic()
        for index in itertools.count():
            if not self._capture.grab():
                raise VideoError(f"{self.name} delivers no more frames; check its cable")
            moment = time.monotonic() - begun
            if index % every == 0:
                yield Frame(_from_bgr(self._capture.retrieve()[1]), index, moment)

    def close(self) -> None:
        self._capture.release()


class _Container(Reader):
    """Whatever FFmpeg opens: a file, a URL, standard input."""

    def __init__(self, name: str, source: Any, retries: int = 0) -> None:
        super().__init__(name)
        if isinstance(source, _Pipe):
            source.stopped = self.stopped
        self._source, self._retries = source, retries
        self._scheme = source.partition("://")[0].lower() if isinstance(source, str) and "://" in source else ""
        self._container, self._stream = self._opened()
        from_web = self._scheme in ("http", "https")
        self.live = self._scheme in LIVE_SCHEMES or (from_web and _endless(self._container))
        rate = self._stream.average_rate or self._stream.guessed_rate
        self.fps = float(rate) if rate else None
        self._seconds = None if self.live else _seconds(self._container, self._stream)
        estimate = round(self._seconds * self.fps) if self._seconds and self.fps else None
        self.num_frames = None if self.live else self._stream.frames or estimate
        height, width = self._stream.codec_context.height, self._stream.codec_context.width
        self.size = (height, width) if height and width else None
        self._skipped = self._patched = 0
        self._ending = ""

    def frames(self, every: int) -> Generator[Frame]:
        index, failures = -1, 0
        clock, reformatter = _Clock(), VideoReformatter()
        while True:
            anchor = None
            for picture in self._pictures():
                index, failures = index + 1, 0
                stamp = picture.pts if picture.pts is not None else picture.dts
                moment = None if stamp is None else clock.read(float(stamp * self._stream.time_base))
                kind = PictureType(picture.pict_type).name
                if index % every == 0:
                    image = reformatter.reformat(picture, format="rgb24").to_ndarray()
                    turns = round(getattr(picture, "rotation", 0) / 90) % 4
                    # The vectors of a turned picture would still lie as they were coded.
                    vectors = _vectors(picture, kind, anchor) if self.keep_vectors and not turns else None
                    yield Frame(np.ascontiguousarray(np.rot90(image, turns)), index, moment, vectors)
                anchor = index if kind in ("I", "P") else anchor
            if self.stopped.is_set():
                return
            if not self.live:
                break
            failures += 1
            if failures > self._retries:
                raise VideoError(f"{self.name} broke off; {self._retries} attempts to open it again failed")
            if self.stopped.wait(2.0 ** (failures - 1)):
                return
            self._open_again()
            clock.resume()
        if index < 0:
            raise VideoError(f"{self.name} holds no frame that can be decoded; check that it is complete")
        # The last frame is shown for a while too; where the rate varies, perhaps as long as any other was.
        if self._seconds and self._seconds - clock.now > clock.longest_step + 0.5:
            self._ending = f"it ends after {clock.now:.1f} of {self._seconds:.1f} seconds"
            self._note()

    def close(self) -> None:
        self._container.close()

    def _opened(self) -> tuple[Any, Any]:
        options = {"rtsp_transport": "tcp"} if self._scheme.startswith("rtsp") else {}
        timeout = NETWORK_TIMEOUT if self._scheme else None
        try:
            container = av.open(self._source, "r", options=options, timeout=timeout, metadata_errors="ignore")
        except av.FFmpegError as error:
            advice = "the address and that something is sent" if self._scheme else "that it is a complete video"
            raise VideoError(f"{self.name} cannot be opened ({error.strerror}); check {advice}") from None
        stream = container.streams.best("video")
        if stream is None or stream.codec_context is None:
            container.close()
            what = "no video stream" if stream is None else "a video stream of an unknown format"
            raise VideoError(f"{self.name} has {what}; give a file with one, like H.264 in mp4")
        return container, stream

    def _open_again(self) -> None:
        self._container.close()
        try:
            self._container, self._stream = self._opened()
        except VideoError:
            self._stream = None  # nothing to read until the next attempt

    def _pictures(self) -> Iterator[Any]:
        """Decoded frames of one connection in display order. What is damaged is skipped and counted."""
        if self._stream is None:
            return
        decoder = self._stream.codec_context
        decoder.thread_count = 2
        # Where FFmpeg decodes frames side by side, vectors are missing or incomplete, differently each time.
        decoder.thread_type = "SLICE" if self.keep_vectors else "AUTO"
        decoder.options = {"flags2": "+export_mvs"} if self.keep_vectors else {}
        try:
            for packet in self._container.demux(self._stream):
                if self.stopped.is_set():
                    return
                yield from self._decoded(packet)
        except av.FFmpegError as error:
            self._ending = f"reading broke off ({error.strerror})"
            yield from self._decoded(None)

    def _decoded(self, packet: Any) -> list[Any]:
        try:
            pictures: list[Any] = self._stream.codec_context.decode(packet)
        except av.FFmpegError:
            pictures = []
            self._skipped += 1
        self._patched += sum(bool(picture.is_corrupt) for picture in pictures)
        self._note()
        return pictures

    def _note(self) -> None:
        skipped = f"{self._skipped} damaged packets were skipped" if self._skipped else ""
        patched = f"{self._patched} damaged frames were patched up" if self._patched else ""
        notes = ", ".join(filter(None, (skipped, patched, self._ending)))
        self.damaged = f"{self.name}: {notes}" if notes else None


class _Pipe:
    """Standard input without the lock of `sys.stdin`, so that a thread waiting for it can be told to stop."""

    stopped: threading.Event

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def read(self, size: int) -> bytes:
        while not self.stopped.is_set():
            # Windows can only wait for sockets this way; there the read itself waits.
            if os.name == "nt" or select.select([self._descriptor], [], [], 0.2)[0]:
                return os.read(self._descriptor, size)
        return b""


class _Clock:
    """Seconds since the first frame, never running backwards though a stream's timestamps may start over."""

    def __init__(self) -> None:
        self.now = self.longest_step = self._step = 0.0
        self._begun: float | None = None
        self._offset: float | None = None

    def read(self, stamp: float) -> float:
        wall = time.monotonic()
        self._begun = wall if self._begun is None else self._begun
        if self._offset is None:
            self._offset = max(self.now, wall - self._begun) - stamp
        elif stamp + self._offset < self.now - 0.2:  # less is jitter; more is a new start, as in joined files
            self._offset = self.now + self._step - stamp
        self._step = max(0.0, stamp + self._offset - self.now)
        self.longest_step = max(self.longest_step, self._step)
        self.now += self._step
        return self.now

    def resume(self) -> None:
        """After a break the next timestamp is laid where the wall clock says, so that the break shows."""
        self._offset = None


_VECTOR = np.dtype("i4, u1, u1, i2, i2, i2, i2, u8, i4, i4, u2", align=True)  # as FFmpeg lays it out
_VECTOR.names = (
    "source", "w", "h", "src_x", "src_y", "dst_x", "dst_y", "flags", "motion_x", "motion_y", "motion_scale"
)  # fmt: skip


def _vectors(picture: Any, kind: str, anchor: int | None) -> CodecVectors:
    data = picture.side_data.get("MOTION_VECTORS")
    blocks = np.zeros(0, _VECTOR) if data is None else data.to_ndarray().copy()  # a view would keep the whole frame
    return CodecVectors(blocks, kind, anchor, (picture.height, picture.width))


def _seconds(container: Any, stream: Any) -> float | None:
    """How long the video says it is, or FFmpeg makes out from its last timestamp; None if unknown."""
    if stream.duration is not None:
        return float(stream.duration * stream.time_base)
    return None if container.duration is None else container.duration / av.time_base


def _endless(container: Any) -> bool:
    """Whether a web server names no length in seconds nor in bytes, as for the pictures of a camera."""
    return container.duration is None and (container.size <= 0 or container.format.name == "hls")


def _read_image(path: Path) -> Image:
    data = np.fromfile(path, np.uint8)  # OpenCV itself does not open every name on every system
    image: Any = cv2.imdecode(data, cv2.IMREAD_COLOR | cv2.IMREAD_ANYDEPTH) if len(data) else None
    if image is None:
        raise ValueError("empty, cut off or not an image")
    return _from_bgr(image)


def _from_bgr(image: Any) -> Image:
    return as_frame(cv2.cvtColor(image, cv2.COLOR_BGR2RGB)).image


def _natural(path: Path) -> tuple[list[str | int], str]:
    """Sorts numbers within names by their value."""
    parts = re.split(r"(\d+)", str(path).lower())
    return [int(part) if place % 2 else part for place, part in enumerate(parts)], str(path)
