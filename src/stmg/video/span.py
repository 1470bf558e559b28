"""Spans: some of the frames of a video file, in a row, as a reading of the whole numbers and times them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

from av.video.reformatter import VideoReformatter

from stmg.errors import SettingsError
from stmg.video.decoding import Container, to_upright_rgb
from stmg.video.frames import Frame
from stmg.video.random_access import IndexedVideo
from stmg.video.sources import VideoSource


def open_span(path: str | Path, first: int, last: int, *, every: int = 1, ahead: int = 4) -> VideoSource:
    """Open the frames from `first` to `last`, both included, of a video file; each `every`th of the whole video.

    Decoding begins at the last frame before `first` that stands alone, so a span deep in a video is opened at once.
    """
    if not 0 <= first <= last or every < 1:
        raise SettingsError(f"a span has 0 <= first <= last, and every of 1 or more; got {first=}, {last=}, {every=}")
    return VideoSource(_Span(str(path), first, last), every, None, None, ahead)


def count_frames(path: str | Path) -> int | None:
    """How many frames a video file has; None where its timestamps do not tell its frames apart."""
    timestamps = IndexedVideo(Path(path)).timestamps
    return len(timestamps) if len(set(timestamps)) == len(timestamps) else None


class _Span(Container):
    """Frames found by their timestamps."""

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
        """Pictures from some time before a timestamp on; from the start of the file where seeking goes too far."""
        self._container.seek(timestamp, stream=self._stream)
        pictures = (picture for picture in self._pictures() if picture.pts is not None)
        first = next(pictures, None)
        if first is None or first.pts > timestamp:
            self._open_again()
            yield from (picture for picture in self._pictures() if picture.pts is not None)
            return
        yield first
        yield from pictures
