"""Pace: play a file at its own rate, like a camera."""

from __future__ import annotations

import time
from collections.abc import Callable

from stmg.errors import SettingsError
from stmg.video.frames import Frame
from stmg.video.sources import FrameSource, VideoSource


def pace(
    source: VideoSource, clock: Callable[[], float] = time.monotonic, sleep: Callable[[float], object] = time.sleep
) -> PacedSource:
    """Play the frames of a source, none before its time. The first frame comes when it is requested.

    A late consumer gets the newest frame that is due. The frames before it are skipped and counted as `dropped`.

        for frame in pace(open_video("street.mp4")):
            ...
    """
    return PacedSource(source, clock, sleep)


class PacedSource(FrameSource):
    """The frames of a source at their own times, or at the source's rate if they have none."""

    live = True

    def __init__(self, source: VideoSource, clock: Callable[[], float], sleep: Callable[[float], object]) -> None:
        self.source, self.size = source, source.size
        self._dropped = self._dropped_early = 0
        self._taken = 0
        self._clock, self._sleep = clock, sleep
        self._next: Frame | None = None
        self._error: Exception | None = None
        """Error from reading ahead, to be raised after the frames before it."""
        self._number = 0
        """Number of the next frame to read, which gives the time of a frame without one."""
        self._start: float | None = None
        self._due = 0.0
        """Time at which to deliver `_next`."""

    @property
    def dropped(self) -> int:
        return self._dropped

    @property
    def dropped_early(self) -> int:
        return self._dropped_early

    @property
    def damaged(self) -> str | None:
        return self.source.damaged

    def __iter__(self) -> PacedSource:
        return self

    def __next__(self) -> Frame:
        if self._start is None:
            self._read()
        if self._next is None:
            error, self._error = self._error, None
            raise error or StopIteration
        wait = self._due - self._clock()
        if wait > 0:
            self._sleep(wait)
        now = self._clock()
        frame = self._next
        self._read()
        self._taken += 1
        while self._next is not None and self._due <= now and self._taken > 1:  # nobody is late for the first frame
            self._dropped += 1
            self._dropped_early += self._taken == 2  # due while the first frame was being computed
            frame = self._next
            self._read()
        return frame

    def _read(self) -> None:
        """Read the next frame, and set the time it is due."""
        try:
            self._next = next(self.source, None)
        except Exception as error:
            self._next, self._error = None, error
        if self._next is None:
            return
        moment = self._next.time
        if moment is None:
            if self.source.fps is None:
                raise SettingsError(f"{self.source.name} has no frame times; give its frame rate, fps")
            moment = self._number / self.source.fps
        self._number += 1
        if self._start is None:
            self._start = self._clock() - moment
        self._due = max(self._due, self._start + moment) if self._number > 1 else self._start + moment
