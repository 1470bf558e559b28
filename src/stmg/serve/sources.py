"""Sources of live streams: cameras and URLs, and files and rendered streets played at their frame rate."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from stmg.data.synthetic.scene import Scene, choose_camera
from stmg.errors import SettingsError, VideoError
from stmg.outputs.videos import write_h264
from stmg.serve.config import StreamConfig
from stmg.video.frames import Frame, Image
from stmg.video.pace import PacedSource, pace
from stmg.video.sources import FrameSource, VideoSource, open_video

STREET_FPS, STREET_SECONDS, STREET_SIZE = 15.0, 10.0, (360, 480)
STREET = re.compile(r"street:(\d{1,9})")


def open_source(config: StreamConfig, folder: Path, stopped: threading.Event) -> FrameSource:
    """Open the source of a stream. Rendered streets are kept as videos in `folder`."""
    street = STREET.fullmatch(config.source)
    if config.source.startswith("street:") and street is None:
        raise SettingsError(f"a rendered street is named by its seed, like street:7; got {config.source}")
    if street is not None:
        path = render_street(int(street[1]), config.fps or STREET_FPS, folder, stopped)
        return PlayedFile(lambda: open_video(path), config.loop, stopped)

    def reopen() -> VideoSource:
        # Let only one frame wait, which keeps the delay short. Report a broken connection at once (no retries): the
        # stream decides when to open it again, and shows that.
        return open_video(config.source, ahead=1, fps=config.fps, retries=0)

    source = reopen()
    if source.live:
        return source
    return PlayedFile(reopen, config.loop, stopped, source)


class PlayedFile(FrameSource):
    """A file played at its frame rate, repeatedly unless `loop` is false. Indices and times keep growing."""

    live = True

    def __init__(
        self,
        reopen: Callable[[], VideoSource],
        loop: bool,
        stopped: threading.Event,
        first: VideoSource | None = None,
    ) -> None:
        self._reopen, self._loop, self._stopped = reopen, loop, stopped
        self._closed = threading.Event()
        self._file = first or reopen()
        self._paced = self._pace()
        self.size = self._file.size
        self._dropped = 0
        self._index = self._last_index = -1
        self._time, self._last_time = 0.0, 0.0
        self._empty = True

    @property
    def dropped(self) -> int:
        return self._dropped + self._paced.dropped

    def __next__(self) -> Frame:
        while not self._closed.is_set() and not self._stopped.is_set():
            frame = next(self._paced, None)
            if frame is not None:
                self._empty = False
                self._last_index = self._index + 1 + (frame.index or 0)
                moment = None if frame.time is None else self._time + frame.time
                self._last_time = self._last_time if moment is None else moment
                return replace(frame, index=self._last_index, time=moment)
            if self._empty:
                raise VideoError(f"{self._file.name} holds no frame that can be decoded; check that it is complete")
            if not self._loop:
                break
            self._start_again()
        raise StopIteration

    def close(self) -> None:
        self._closed.set()
        self._file.close()

    def _start_again(self) -> None:
        interval = 1 / (self._file.fps or 25.0)
        self._closed.wait(interval)  # show the last frame as long as the others
        self._dropped += self._paced.dropped
        self._index, self._time, self._empty = self._last_index, self._last_time + interval, True
        self._file.close()
        self._file = self._reopen()
        self._paced = self._pace()
        if self._closed.is_set():  # closed while the file was being opened
            self._file.close()

    def _pace(self) -> PacedSource:
        return pace(self._file, sleep=self._closed.wait)


_rendering = threading.Lock()


def render_street(seed: int, fps: float, folder: Path, stopped: threading.Event) -> Path:
    """Render a street as a video of ten seconds, once for each seed and rate."""
    path = folder / f"street-{seed}-{fps:g}.mp4"
    with _rendering:
        if path.exists():
            return path
        part = path.with_suffix(".part.mp4")
        scene = Scene(seed, STREET_SIZE, choose_camera(seed), fps=fps)
        write_h264(part, _render(scene, max(2, round(STREET_SECONDS * fps)), stopped), fps, quality=18)
        part.rename(path)
    return path


def _render(scene: Scene, frames: int, stopped: threading.Event) -> Iterator[Image]:
    for index in range(frames):
        if stopped.is_set():
            raise VideoError("stopped while its street was rendered")
        yield scene.frame(index)[0]
