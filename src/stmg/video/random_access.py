"""Random access: read any frame, or any span of frames, of a video file by number."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import av
from av.container import InputContainer
from av.video.reformatter import VideoReformatter

from stmg.errors import SettingsError, VideoError
from stmg.video.decoding import Container, read_rate, to_upright_rgb
from stmg.video.frames import Frame, Image
from stmg.video.sources import VideoSource

# Seconds before a frame at which the search for it starts. Without an index, as in transport streams, FFmpeg may seek
# too far. The last attempt starts at the beginning.
SEEK_BEFORE = (0.0, 2.0, 16.0, math.inf)


@dataclass(frozen=True)
class IndexedVideo:
    """A video file whose frames can be read in any order. It keeps nothing open, so processes may share it.

    The first use reads the whole file once, to index its frames:

        video = IndexedVideo(Path("drive.mp4"))
        last = video.read(len(video) - 1)
    """

    path: Path

    @property
    def fps(self) -> float | None:
        return self._index.fps

    @cached_property
    def size(self) -> tuple[int, int]:
        """(height, width) of its upright frames. Coded frames may be rotated."""
        height, width = self.read(0).shape[:2]
        return height, width

    def __len__(self) -> int:
        return len(self._index.timestamps)

    @property
    def timestamps(self) -> list[int]:
        """Timestamp of each frame in ticks of the container."""
        return self._index.timestamps

    def read(self, index: int) -> Image:
        """Read one frame as upright RGB (H, W, 3), decoded from the last key frame before it."""
        timestamp = self._index.timestamps[index]
        try:
            for seconds in SEEK_BEFORE:
                image = self._read_from(timestamp, seconds)
                if image is not None:
                    return image
        except (av.FFmpegError, OSError) as error:
            raise VideoError(f"frame {index} of {self.path} cannot be read: {error}") from None
        raise VideoError(f"frame {index} of {self.path} cannot be read: the video ends before it")

    def _read_from(self, timestamp: int, seconds: float) -> Image | None:
        """Search the frame with a timestamp, starting this long before it; None if the search starts too late."""
        with self._open() as container:
            stream = container.streams.best("video")
            assert stream is not None  # the index found one
            if seconds < math.inf:
                assert stream.time_base is not None  # its frames have timestamps
                ticks = int(seconds / float(stream.time_base))
                container.seek(max(timestamp - ticks, self._index.timestamps[0]), stream=stream)
            is_first = True
            for picture in container.decode(stream):
                if picture.pts is None or picture.pts < timestamp:
                    is_first = False
                elif picture.pts == timestamp or not is_first or seconds == math.inf:
                    return to_upright_rgb(picture)
                else:
                    return None
        return None

    def _open(self) -> InputContainer:
        # Use an absolute path: FFmpeg would take a relative name with a colon for a protocol.
        return av.open(str(self.path.absolute()), metadata_errors="ignore")

    @cached_property
    def _index(self) -> _Index:
        try:
            with self._open() as container:
                stream = container.streams.best("video")
                if stream is None:
                    raise VideoError(f"{self.path} holds no video")
                # Keep only the time of each packet: all packets together are the whole file.
                times = [packet.pts for packet in container.demux(stream) if packet.size and not packet.is_discard]
                fps = read_rate(stream)
        except (av.FFmpegError, OSError) as error:
            raise VideoError(f"{self.path} cannot be read as a video: {error}") from None
        if not times:
            raise VideoError(f"{self.path} holds no frames")
        timestamps = sorted(time for time in times if time is not None)
        if not timestamps:
            raise VideoError(f"the frames of {self.path} have no times; convert it: ffmpeg -i IN -c copy OUT.mp4")
        return _Index(timestamps, fps)


@dataclass(frozen=True)
class _Index:
    timestamps: list[int]
    """Sorted timestamps in ticks of the container. Their positions are the frame numbers."""
    fps: float | None


def open_span(path: str | Path, first: int, last: int, *, every: int = 1, ahead: int = 4) -> VideoSource:
    """Open the frames `first` to `last` (inclusive) of a video file; every `every`th, counted from the file's start.

    Indices and times are those of the whole video. Decoding begins at the last key frame before `first`, so a span deep
    inside a video opens quickly.
    """
    if not 0 <= first <= last or every < 1:
        raise SettingsError(f"a span has 0 <= first <= last, and every of 1 or more; got {first=}, {last=}, {every=}")
    return VideoSource(_Span(str(path), first, last), every, None, None, ahead)


def count_frames(path: str | Path) -> int | None:
    """Number of frames of a video file; None if several share a timestamp."""
    timestamps = IndexedVideo(Path(path)).timestamps
    return len(timestamps) if len(set(timestamps)) == len(timestamps) else None


class _Span(Container):
    """Consecutive frames, found by their timestamps."""

    def __init__(self, path: str, first: int, last: int) -> None:
        super().__init__(path, str(Path(path).absolute()))
        self._timestamps = IndexedVideo(Path(path)).timestamps
        self._first, self._last = first, min(last, len(self._timestamps) - 1)
        self.num_frames = max(0, self._last - first + 1)

    def frames(self, every: int) -> Generator[Frame]:
        begun, tick = self._timestamps[0], self._stream.time_base
        reformatter = VideoReformatter()
        for picture in self._pictures_from(self._timestamps[self._first]):
            index = bisect_left(self._timestamps, picture.pts)
            if index > self._last:
                return
            if index >= self._first and index % every == 0:
                yield Frame(to_upright_rgb(picture, reformatter), index, float((picture.pts - begun) * tick))

    def _pictures_from(self, timestamp: int) -> Iterator[Any]:
        """Decode from before a timestamp; from the start of the file if seeking goes too far."""
        self._container.seek(timestamp, stream=self._stream)
        pictures = (picture for picture in self._pictures() if picture.pts is not None)
        first = next(pictures, None)
        if first is None or first.pts > timestamp:
            self._open_again()
            yield from (picture for picture in self._pictures() if picture.pts is not None)
            return
        yield first
        yield from pictures
