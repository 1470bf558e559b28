"""Random access: any frame of a video file by its number, exactly."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import av
from av.container import InputContainer

from stmg.errors import VideoError
from stmg.video.decoding import read_rate, to_upright_rgb
from stmg.video.frames import Image

# Seconds before a frame from which it is looked for: where a container has no index, as transport streams have none,
# FFmpeg may find a place behind it. At last from the start.
SEEK_BEFORE = (0.0, 2.0, 16.0, math.inf)


@dataclass(frozen=True)
class IndexedVideo:
    """A video file whose frames are read in any order. It holds nothing open, so processes may share it.

    The first use reads the whole file once, to know its frames:

        video = IndexedVideo(Path("drive.mp4"))
        last = video.read(len(video) - 1)
    """

    path: Path

    @property
    def fps(self) -> float | None:
        return self._index.fps

    @cached_property
    def size(self) -> tuple[int, int]:
        """(height, width) of its upright frames, as the first shows it: what is coded may be rotated."""
        height, width = self.read(0).shape[:2]
        return height, width

    def __len__(self) -> int:
        return len(self._index.timestamps)

    @property
    def timestamps(self) -> list[int]:
        """When each frame is shown, in the container's own ticks."""
        return self._index.timestamps

    def read(self, index: int) -> Image:
        """One frame, upright RGB (H, W, 3); decoded from the last key frame before it on."""
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
        """The frame of a timestamp, looked for from so long before it on; None if that is not before it."""
        with self._open() as container:
            stream = container.streams.best("video")
            assert stream is not None  # there was one when the index was made
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
        # As a path it has no colon that could be read as a protocol's, and what its tags say is of no concern here.
        return av.open(str(self.path.absolute()), metadata_errors="ignore")

    @cached_property
    def _index(self) -> _Index:
        try:
            with self._open() as container:
                stream = container.streams.best("video")
                if stream is None:
                    raise VideoError(f"{self.path} holds no video")
                # Of each packet its time alone: the packets themselves are the whole file.
                times = [packet.pts for packet in container.demux(stream) if packet.size and not packet.is_discard]
                fps = read_rate(stream)
        except (av.FFmpegError, OSError) as error:
            raise VideoError(f"{self.path} cannot be read as a video: {error}") from None
        if not times:
            raise VideoError(f"{self.path} holds no frames")
        timestamps = sorted(time for time in times if time is not None)
        if not timestamps:
            raise VideoError(f"the frames of {self.path} have no times: put it into MP4, ffmpeg -i IN -c copy OUT.mp4")
        return _Index(timestamps, fps)


@dataclass(frozen=True)
class _Index:
    timestamps: list[int]
    """When each frame is shown, in the container's own ticks; a frame's number is its position among them."""
    fps: float | None
