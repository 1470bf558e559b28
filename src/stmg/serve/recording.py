"""Recording: overlay and records of a stream in segments. The oldest are removed to limit disk space."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from stmg.outputs.records import Records
from stmg.outputs.sinks import BackgroundSink, Sink, Sinks
from stmg.outputs.videos import OverlayVideo
from stmg.serve.config import RecordConfig
from stmg.streaming.result import FrameResult

SUFFIXES = (".mp4", ".jsonl")
STAMP = "%Y%m%dT%H%M%S%fZ"
SEGMENT = re.compile(r"\d{8}T\d{12}Z\.(mp4|jsonl)")  # names in the format of `STAMP`
RETRY_SECONDS = 30.0  # wait after a segment that could not be written
log = logging.getLogger("stmg.serve")


class SegmentRecorder(Sink):
    """Writes a stream to `folder/stream/TIME.mp4` and `.jsonl`, a new pair every few minutes.

    A full or missing disk ends the segment and is shown in `state`. Recording is retried while the stream goes on.
    """

    def __init__(
        self,
        config: RecordConfig,
        stream: str,
        class_names: tuple[str, ...] = (),
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._config, self._folder = config, Path(config.folder) / stream
        self._class_names, self._clock = class_names, clock
        self._lock = threading.Lock()
        self._sink: Sink | None = None
        self._begun = 0.0
        self._retry_at = 0.0
        self._error: str | None = None
        self._closed = False

    @property
    def state(self) -> str:
        return "recording" if self._error is None else self._error

    def write(self, result: FrameResult) -> None:
        with self._lock:
            now = self._clock()
            if self._closed or now < self._retry_at:
                return
            try:
                if self._sink is not None and now - self._begun >= 60 * self._config.minutes:
                    self._finish()
                if self._sink is None:
                    self._begin(now)
                assert self._sink is not None
                self._sink.write(result)
                self._error = None
            except OSError as error:
                self._error, self._retry_at = f"not recording: {error.strerror or error}", now + RETRY_SECONDS
                log.error("%s: %s", self._folder, self._error)
                sink, self._sink = self._sink, None
                try:
                    if sink is not None:
                        sink.close()
                except OSError:
                    pass  # the first error was reported

    def close(self) -> None:
        with self._lock:
            self._closed = True
            try:
                self._finish()
            except OSError as error:
                self._error = f"not recording: {error.strerror or error}"
                log.error("%s: %s", self._folder, self._error)

    def _begin(self, now: float) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        stamp = datetime.fromtimestamp(now, UTC).strftime(STAMP)
        video, records = (self._folder / f"{stamp}{suffix}" for suffix in SUFFIXES)
        # The frame rate is only nominal: frames have their own timestamps.
        sinks = Sinks(OverlayVideo(video, 15.0), Records(records, areas=True, class_names=self._class_names))
        self._sink, self._begun = BackgroundSink(sinks), now
        remove_old_segments(self._config, now)

    def _finish(self) -> None:
        sink, self._sink = self._sink, None
        if sink is not None:
            sink.close()


def remove_old_segments(config: RecordConfig, now: float) -> None:
    """Remove the oldest segments of all streams until both limits hold.

    Files with other names are kept, and so is the newest segment of each stream, which may still be written.
    """
    segments = []
    for folder in Path(config.folder).glob("*/"):
        ours: list[Path] = []
        with suppress(OSError):  # such as lost+found, which only root may list
            ours = [path for path in folder.iterdir() if SEGMENT.fullmatch(path.name)]
        newest = max((path.stem for path in ours), default="")
        for path in ours:
            with suppress(OSError):  # another stream removed it meanwhile
                status = path.stat()
                segments.append((path.stem == newest, status.st_mtime, status.st_size, path))
    segments.sort()
    total = sum(size for _, _, size, _ in segments)
    for is_newest, changed, size, path in segments:
        if is_newest:
            break
        if total <= 1e9 * config.gigabytes and now - changed <= 3600 * config.hours:
            break
        with suppress(OSError):  # a file of another user still counts
            path.unlink(missing_ok=True)
            total -= size
