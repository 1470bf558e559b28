"""Video sources: frames of a file, folder, camera, URL or standard input, decoded ahead in a thread."""

from __future__ import annotations

import glob
import math
import os
import re
import sys
import threading
import time
import weakref
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import av

from stmg.bounded_queue import BoundedQueue
from stmg.errors import SettingsError, VideoError
from stmg.video.addresses import IMAGE_SUFFIXES, hide_credentials
from stmg.video.decoding import Container
from stmg.video.frames import Frame, check_color, check_size, resize_image, swap_red_and_blue
from stmg.video.opening import Pipe
from stmg.video.readers import Camera, Images, Reader


def open_video(
    source: str | Path | int,
    *,
    every: int = 1,
    limit: int | None = None,
    resize: tuple[int, int] | None = None,
    ahead: int = 4,
    fps: float | None = None,
    retries: int = 5,
    color: str = "rgb",
) -> VideoSource:
    """Open a source of frames.

    `source` is a video file, a folder of images or a pattern like "frames/*.png" (in natural order: frame2
    before frame10), a camera ("camera:0", 0 or "/dev/video0"), a URL, or "-" for a video on standard input.
    It gives each `every`th decoded frame, at most `limit` of them, resized to `resize` (height, width) if given.
    Up to `ahead` decoded frames wait. `fps` is the rate of a folder of images, which have no times of their own,
    and of a video that declares none. A live URL that breaks off is reopened, until `retries` attempts in a row
    failed. With `color="bgr"` frames come as OpenCV shows them; a segmenter that is handed such a frame knows that.

        with open_video("street.mp4", every=2) as source:
            for frame in source:
                print(frame.index, frame.time, frame.size)
    """
    if every < 1 or ahead < 1 or (limit is not None and limit < 0):
        raise SettingsError(f"every and ahead are at least 1, limit at least 0; got {every=}, {ahead=}, {limit=}")
    if fps is not None and not 0 < fps < math.inf:
        raise SettingsError(f"fps is above 0; got {fps}")
    if resize is not None:
        resize = check_size(resize, "resize")
    check_color(color)
    return VideoSource(_make_reader(source, fps, retries), every, limit, resize, ahead, color)


class FrameSource(Iterator[Frame]):
    """Frames in order, with the properties of their source.

    Each frame has its own memory, which is never written to again, so nobody has to copy frames to keep them.
    """

    live: bool = False
    """True if frames come at their own pace, even if nobody takes them."""
    size: tuple[int, int] | None = None
    """(height, width) of upright frames as declared by the source; None if unknown."""

    @property
    def dropped(self) -> int:
        """Number of frames that were not taken in time."""
        return 0

    @property
    def dropped_early(self) -> int:
        """Number of frames dropped before the consumer finished its first frame, such as while a model loads."""
        return 0

    @property
    def damaged(self) -> str | None:
        """One line about what could not be decoded so far; None if there is nothing to report."""
        return None

    @abstractmethod
    def __next__(self) -> Frame:
        """Return the next frame; raise `StopIteration` after the last."""

    def close(self) -> None:
        """Close the source, from any thread. A waiting `__next__` ends."""


class VideoSource(FrameSource):
    """An open source of frames, and a context manager.

    Files, folders and pipes deliver all of their frames. A live source does not wait for its consumer: the newest frame
    replaces the oldest waiting one, which counts as `dropped`. If the size changes within the stream, frames come at
    their own size unless `resize` was given. Images marked as rotated, as by a phone, come upright.
    """

    fps: float | None
    """FPS, with `every` taken into account; None if unknown."""
    num_frames: int | None
    """Number of frames to expect, often an estimate; None if unknown."""

    def __init__(
        self,
        reader: Reader,
        every: int,
        limit: int | None,
        resize: tuple[int, int] | None,
        ahead: int,
        color: str = "rgb",
    ) -> None:
        self.name, self.live, self.size = reader.name, reader.live, resize or reader.size
        self.fps = None if reader.fps is None else reader.fps / every
        counts = (limit, None if reader.num_frames is None else -(-reader.num_frames // every))
        self.num_frames = min((count for count in counts if count is not None), default=None)
        self._remaining = limit
        self._reader = reader
        self._drops = _Drops()
        self._queue = BoundedQueue[Frame](ahead, self._drops.add if reader.live else None)
        self._taken = 0
        work = (reader, self._queue, every, resize, color)
        self._thread = threading.Thread(target=_decode_ahead, args=work, name="decode", daemon=True)
        # The thread holds no reference to this object, so that garbage collection of a source stops its thread too.
        self._finalizer = weakref.finalize(self, _stop, reader, self._queue, self._thread)

    @property
    def dropped(self) -> int:
        return self._drops.count

    @property
    def dropped_early(self) -> int:
        return self._drops.early

    @property
    def damaged(self) -> str | None:
        return self._reader.damaged

    def close(self) -> None:
        """Stop decoding and close the source. The last frame and the end of a `with` block do so too."""
        self._finalizer()

    def __iter__(self) -> VideoSource:
        return self

    def __next__(self) -> Frame:
        if self._taken == 1:
            self._drops.ready = time.monotonic()
        self._taken += 1
        if self._remaining == 0:
            self.close()
        elif self._thread.ident is None and self._finalizer.alive:
            self._thread.start()
        frame = self._queue.get()
        if frame is None:
            self.close()
            raise StopIteration
        if self._remaining is not None:
            self._remaining -= 1
        return frame

    def __enter__(self) -> VideoSource:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class _Drops:
    """Counts the frames that a live source drops."""

    def __init__(self) -> None:
        self.count = self.early = 0
        self.ready: float | None = None
        """Time at which the consumer finished its first frame; None before."""
        self._opened = time.monotonic()

    def add(self, frame: Frame) -> None:
        self.count += 1
        # A frame sent before anyone read may arrive much later, from buffers of the network.
        sent = None if frame.time is None else self._opened + frame.time
        self.early += self.ready is None or (sent is not None and sent < self.ready)


def _decode_ahead(
    reader: Reader, queue: BoundedQueue[Frame], every: int, resize: tuple[int, int] | None, color: str
) -> None:
    error: Exception | None = None
    try:
        with closing(reader.frames(every)) as frames:
            for frame in frames:
                if resize is not None:
                    frame = replace(frame, image=resize_image(frame.image, resize))
                if color == "bgr":
                    frame = replace(frame, image=swap_red_and_blue(frame.image), color=color)
                queue.put(frame)
                if reader.stopped.is_set():
                    break
    except av.FFmpegError as caught:
        error = VideoError(f"{reader.name} cannot be decoded: {caught.strerror}")
    except Exception as caught:
        error = caught
    finally:
        reader.close()
        queue.finish(error)


def _stop(reader: Reader, queue: BoundedQueue[Frame], thread: threading.Thread) -> None:
    reader.stopped.set()
    queue.finish(discard=True)
    if thread.ident is None:
        reader.close()
    elif thread is not threading.current_thread():  # which garbage collection may interrupt
        thread.join(timeout=1.0)  # only a silent network takes longer, up to NETWORK_TIMEOUT


def _make_reader(source: str | Path | int, fps: float | None, retries: int) -> Reader:
    text = str(source)
    camera = re.fullmatch(r"(?:camera:|/dev/video)(\d+)", text)
    if isinstance(source, int) or camera:
        return Camera(int(camera[1] if camera else text))
    if text.startswith("camera:"):
        raise VideoError(f"{text}: a camera is named by its number, like camera:0")
    if text == "-" and sys.stdin.isatty():
        raise VideoError("standard input is a terminal; send a video into it, like: cat street.ts | stmg ...")
    if text == "-":
        stream = sys.stdin.buffer
        return Container("standard input", stream if stream.seekable() else Pipe(stream.fileno()), fps=fps)
    if "://" in text:
        return Container(hide_credentials(text), text, retries, fps)
    path = Path(text)
    if path.is_dir():
        return Images(text, [entry for entry in path.iterdir() if not entry.name.startswith(".")], fps)
    if path.is_file() and path.stat().st_size == 0:
        raise VideoError(f"{text} is empty; copy or record it again")
    if path.exists() and path.suffix.lower() in IMAGE_SUFFIXES:
        return Images(text, [path], fps)
    if path.is_fifo():
        pipe = Pipe(os.open(path, os.O_RDONLY | os.O_NONBLOCK), owned=True)
        try:
            return Container(text, pipe, fps=fps)
        except BaseException:
            pipe.close()
            raise
    if path.exists():  # use an absolute path: FFmpeg would take a relative name with a colon for a protocol
        return Container(text, str(path.absolute()), fps=fps)
    if glob.has_magic(text):
        return Images(text, [Path(match) for match in glob.glob(text, recursive=True)], fps)
    raise VideoError(f"{text} does not exist; give a video file, a folder of images, a camera, a URL or -")
