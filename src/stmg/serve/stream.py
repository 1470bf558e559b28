"""A live stream: a thread that opens its source, segments it, and reopens it after a failure."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import closing
from pathlib import Path
from typing import Any

from stmg.errors import StmgError
from stmg.models.loaded import LoadedModel
from stmg.models.spec import ModelSpec
from stmg.outputs.sinks import Sink
from stmg.pipeline import run_pipeline
from stmg.segmenter import VideoSegmenter
from stmg.serve.config import StreamConfig
from stmg.serve.figures import LiveStatistics, TimedExecutor
from stmg.serve.recording import SegmentRecorder
from stmg.serve.sources import open_source
from stmg.serve.state import Controls, Status, StreamInfo
from stmg.streaming.result import FrameResult
from stmg.streaming.schedulers import DriftBudget
from stmg.video.addresses import hide_credentials, hide_in_text
from stmg.video.frames import Frame
from stmg.video.sources import FrameSource

DELAY = 14  # default limit in frames in offline mode
log = logging.getLogger("stmg.serve")


class LiveStream:
    """One stream. Its errors do not affect other streams."""

    def __init__(
        self,
        config: StreamConfig,
        spec: ModelSpec,
        model: LoadedModel,
        executor: Executor,
        folder: Path,
        retry_seconds: tuple[float, float] = (1.0, 30.0),
        recorder: SegmentRecorder | None = None,
    ) -> None:
        self.config, self.spec, self.model = config, spec, model
        self.figures, self.recorder = LiveStatistics(self.model.segmenter.class_names), recorder
        self._folder, self._retry = folder, retry_seconds
        self._executor = TimedExecutor(executor, self.figures)
        mode = spec.settings.choose_mode("realtime")
        controls = Controls().with_settings(self.model.segmenter_for(spec, mode=mode).settings)
        self._make_segmenter(controls)  # raises if settings contradict each other
        self._controls, self._version = controls, 0
        self._status = Status(since=time.time())
        self._changed = threading.Condition()
        self._stopped = threading.Event()
        self._newest: FrameResult | None = None
        self._newest_version = 0
        self._source: FrameSource | None = None
        self._thread = threading.Thread(target=self._run, name=f"stream-{config.name}", daemon=True)
        self.on_result: Callable[[FrameResult], None] = lambda result: None
        """Called with each result, in the stream's thread."""

    @property
    def name(self) -> str:
        return self.config.name

    @property
    def controls(self) -> Controls:
        return self._controls

    @property
    def status(self) -> Status:
        return self._status

    @property
    def newest(self) -> FrameResult | None:
        """The last result."""
        return self._newest

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Signal the stream to end. `join` waits for it."""
        self._stopped.set()
        source = self._source
        if source is not None:
            source.close()
        with self._changed:
            self._changed.notify_all()

    def join(self, timeout: float) -> bool:
        """Wait until the thread has ended; return False if it takes longer. The recording is closed in any case."""
        if self._thread.ident is not None:
            self._thread.join(timeout)
        if self.recorder is not None:
            self.recorder.close()
        return not self._thread.is_alive()

    @property
    def is_stopped(self) -> bool:
        return self._stopped.is_set()

    def set_live(self) -> None:
        """Set the status to live, even if the frames are not shown."""
        if self._status.state != "live":
            self._set_status("live")

    def change(self, changes: dict[str, Any]) -> Controls:
        """Change controls by name, from the next frame on. Raise if they do not fit the model."""
        with self._changed:
            controls = self._controls.change(changes)
            if controls.settings != self._controls.settings:
                controls = controls.with_settings(self._make_segmenter(controls).settings)
                self._version += 1
            if controls.opacity != self._controls.opacity:
                self._newest_version += 1  # draw the picture again, even while paused
            self._controls = controls
            self._changed.notify_all()
        return controls

    def info(self) -> StreamInfo:
        settings = self.model.segmenter.settings
        colors = dict(zip(settings.class_names, settings.palette.tolist(), strict=False))
        return StreamInfo(
            name=self.name,
            source=hide_credentials(self.config.source if "://" in self.config.source else _shown(self.config.source)),
            model=self.model.name,
            status=self._status,
            controls=self._controls.as_dict(),
            figures=self.figures.read(),
            classes={name: (color[0], color[1], color[2]) for name, color in colors.items()},
            recording=None if self.recorder is None else self.recorder.state,
        )

    def wait_newer(self, version: int, timeout: float) -> tuple[int, FrameResult] | None:
        """Wait for a result newer than a version, or a new opacity; None after `timeout` seconds."""
        with self._changed:
            self._changed.wait_for(lambda: self._newest_version > version or self.is_stopped, timeout)
            if self._newest is None or self._newest_version <= version:
                return None
            return self._newest_version, self._newest

    def _run(self) -> None:
        failures = 0
        while not self.is_stopped:
            try:
                self._play()
                if not self.is_stopped:
                    self._set_status("ended", "the video is over")
                return
            except StmgError as error:
                reason = " ".join(self._hide(str(error)).split())
            except Exception as error:
                log.error("stream %s: %s", self.name, self._hide(repr(error)))
                reason = f"an error in the network or in stmg: {self._hide(str(error)) or type(error).__name__}"
            if self.is_stopped:
                return
            failures = 0 if self._status.state == "live" else failures + 1
            wait = min(self._retry[1], self._retry[0] * 2.0 ** min(failures, 16))
            if (self._status.state, self._status.reason) != ("offline", reason):  # log once, not at each attempt
                log.warning("stream %s is down: %s", self.name, reason)
            self._set_status("offline", reason, time.time() + wait)
            self._stopped.wait(wait)
            self.figures.reconnect()

    def _play(self) -> None:
        """Segment the source until it ends or fails, or the stream is stopped."""
        if self.config.source.startswith("street:"):
            self._set_status("starting", "the street is being rendered")
        source = open_source(self.config, self._folder, self._stopped)
        self._source = source
        with closing(source):
            frames = _Frames(self, source)
            while not self.is_stopped and not frames.ended:
                self._segment(frames, source)

    def _segment(self, frames: _Frames, source: FrameSource) -> None:
        """Segment with the current controls, until they change or the frames end."""
        with self._changed:
            version, controls = self._version, self._controls
        self.figures.mode = controls.mode
        run_pipeline(
            self._make_segmenter(controls),
            frames,
            _LiveSink(self),
            self.figures,
            executor=self._executor if controls.mode == "realtime" else None,
            is_over=lambda: self._version != version or self.is_stopped,
        )

    def _make_segmenter(self, controls: Controls) -> VideoSegmenter:
        options, mode = dict(controls.settings), controls.mode
        if mode == "online" and options["max_change"] is not None:
            # Only a drift budget can follow `max_change`, which the user of the page has just set.
            settings = self.model.segmenter_for(self.spec, mode="online", max_change=None).settings
            if not isinstance(settings.scheduler_for("online"), DriftBudget):
                options["scheduler"] = DriftBudget()
        if mode == "offline":
            options["delay"] = self.spec.settings.delay or DELAY
        return self.model.segmenter_for(self.spec, **options)

    def _show(self, result: FrameResult) -> None:
        self.set_live()
        if self.recorder is not None:
            self.recorder.write(result)
        with self._changed:
            self._newest, self._newest_version = result, self._newest_version + 1
            self._changed.notify_all()
        self.on_result(result)

    def _hide(self, text: str) -> str:
        return hide_in_text(text, [self.config.source])

    def _set_status(self, state: str, reason: str | None = None, next_try: float | None = None) -> None:
        since = self._status.since if state == self._status.state else time.time()
        self._status = Status(state, reason, since, next_try)


class _LiveSink(Sink):
    """Shows results to the viewers of a stream, and records them."""

    def __init__(self, stream: LiveStream) -> None:
        self._stream = stream

    def write(self, result: FrameResult) -> None:
        self._stream._show(result)

    def close(self) -> None:
        """Do nothing: the recorder is closed with the stream."""


class _Frames(FrameSource):
    """The frames of a source as they arrive. None are passed on while the stream is paused."""

    live = True

    def __init__(self, stream: LiveStream, source: FrameSource) -> None:
        self._stream, self._source, self.size = stream, source, source.size
        self._dropped = 0
        self.ended = False

    def __next__(self) -> Frame:
        while not self._stream.is_stopped:
            try:
                frame = next(self._source)
            except StopIteration:
                break
            dropped, self._dropped = self._source.dropped - self._dropped, self._source.dropped
            self._stream.figures.arrive(dropped)
            if not self._stream.controls.paused:
                return frame
            self._stream.set_live()
        self.ended = True
        raise StopIteration


def _shown(source: str) -> str:
    """The name of a file without its folders."""
    return source if ":" in source else Path(source).name
