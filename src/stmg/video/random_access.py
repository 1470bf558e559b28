"""Random access: any frame of a video file by its number, exactly."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import av

from stmg.errors import VideoError
from stmg.video.decoding import to_upright_rgb
from stmg.video.frames import Image


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
            with av.open(str(self.path)) as container:
                stream = container.streams.best("video")
                container.seek(timestamp, stream=stream)
                for picture in container.decode(stream):
                    if picture.pts is not None and picture.pts >= timestamp:
                        return to_upright_rgb(picture)
        except (av.FFmpegError, OSError) as error:
            raise VideoError(f"frame {index} of {self.path} cannot be read: {error}") from None
        raise VideoError(f"frame {index} of {self.path} cannot be read: the video ends before it")

    @cached_property
    def _index(self) -> _Index:
        try:
            with av.open(str(self.path)) as container:
                stream = container.streams.best("video")
                if stream is None:
                    raise VideoError(f"{self.path} holds no video")
                timestamps = sorted(
                    packet.pts for packet in container.demux(stream) if packet.pts is not None and not packet.is_discard
                )
                fps = float(stream.average_rate) if stream.average_rate else None
        except (av.FFmpegError, OSError) as error:
            raise VideoError(f"{self.path} cannot be read as a video: {error}") from None
        if not timestamps:
            raise VideoError(f"{self.path} holds no frames")
        return _Index(timestamps, fps)


@dataclass(frozen=True)
class _Index:
    timestamps: list[int]
    """When each frame is shown, in the container's own ticks; a frame's number is its position among them."""
    fps: float | None
