"""The service: streams that can be added, changed and removed, and what they share."""

from __future__ import annotations

import asyncio
import json
import tempfile
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from stmg.errors import SettingsError
from stmg.models.loaded import LoadedModel, LoadedModels
from stmg.models.spec import ModelSpec
from stmg.outputs.records import describe_result
from stmg.serve.channels import Channel
from stmg.serve.config import MOST_STREAMS, ServeConfig, StreamConfig, make_model_spec
from stmg.serve.pictures import Pictures
from stmg.serve.recording import SegmentRecorder
from stmg.serve.stream import LiveStream
from stmg.serve.uploads import Uploads
from stmg.streaming.result import FrameResult
from stmg.streaming.threads import lower_thread_priority

TICK = 0.5  # seconds between two events with figures
RESULT_DEPTH = 64  # number of results kept for late viewers
SNAPSHOTS = 4  # number kept for each stream
STOP_SECONDS = 3.0


class Snapshot:
    """A kept result, and the opacity it was shown with."""

    def __init__(self, result: FrameResult, opacity: float) -> None:
        self.result, self.opacity = result, opacity


@dataclass
class Shown:
    """A stream, and the channels that its viewers follow."""

    stream: LiveStream
    pictures: Pictures
    results: Channel
    snapshots: OrderedDict[str, Snapshot]


class Service:
    """Everything behind the API.

    make_spec: returns the spec of a stream's model and settings.
    """

    def __init__(self, config: ServeConfig, make_spec: Callable[[StreamConfig], ModelSpec] | None = None) -> None:
        self.config, self.models = config, LoadedModels()
        # One worker: a network uses all cores by itself, and two at once would both be late.
        self.executor = ThreadPoolExecutor(1, thread_name_prefix="stmg-network", initializer=lower_thread_priority)
        self._make_spec = make_spec or partial(_spec_of, config)
        self._folder = tempfile.TemporaryDirectory(prefix="stmg-serve-", ignore_cleanup_errors=True)
        self._shown: dict[str, Shown] = {}
        self._lock = threading.Lock()
        self.events = Channel()
        self.viewers = 0
        """Number of connections that follow pictures or events."""
        self.stopping = False
        self._sent: dict[str, int] = {}
        self._ticker: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._streams = [self._make_stream(stream) for stream in config.streams]
        for name in config.sources:  # load their models now, so that mistakes are reported now
            self._load(self._make_spec(self._allowed(name)))
        limits = config.uploads
        self.uploads = None if limits is None else Uploads(Path(self._folder.name) / "uploads", limits)

    @property
    def shown(self) -> list[Shown]:
        return list(self._shown.values())

    @property
    def is_ready(self) -> bool:
        """True once every stream is live or known to be down."""
        starting = any(shown.stream.status.state == "starting" for shown in self.shown)
        return not self.stopping and self._loop is not None and not starting

    def find(self, name: str) -> Shown | None:
        return self._shown.get(name)

    async def start(self) -> None:
        """Start all streams. Call this in the event loop."""
        self._loop = asyncio.get_running_loop()
        for stream in self._streams:
            self._show(stream)
        if self.uploads is not None:
            self.uploads.start()
        self._ticker = asyncio.create_task(self._tick())

    def disconnect(self) -> None:
        """End the responses to all viewers."""
        self.stopping = True
        for shown in self.shown:
            self._disconnect(shown)
        for viewer in list(self.events.viewers):
            viewer.close()

    async def stop(self) -> None:
        """End all streams, close their files and remove temporary files."""
        self.disconnect()
        if self._ticker is not None:
            self._ticker.cancel()
        await asyncio.to_thread(self._stop)

    def add(self, source: str, name: str | None, model: str | None) -> LiveStream:
        """Start a stream of a source that the configuration names."""
        config = self._allowed(source)
        if model is not None:
            config = replace(config, model=self.models.named(model).spec.name)
        with self._lock:
            taken = name or _free_name(source, self._shown)
            if taken in self._shown:
                raise SettingsError(f"there is a stream called {taken} already")
            if len(self._shown) >= MOST_STREAMS:
                raise SettingsError(f"there are {MOST_STREAMS} streams already; remove one first")
            stream = self._make_stream(replace(config, name=taken))
            self._show(stream)
        return stream

    def remove(self, name: str) -> bool:
        """End a stream. Return False if there is none. Call this outside the event loop."""
        with self._lock:
            shown = self._shown.pop(name, None)
            self._sent.pop(name, None)
        if shown is None:
            return False
        shown.stream.stop()
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._disconnect, shown)
        shown.stream.join(STOP_SECONDS)
        return True

    def summary(self, *, history: bool = False) -> bytes:
        """An event with the figures of all streams, and the points of their timelines: all, or only the new ones."""
        streams = []
        for shown in self.shown:
            stream = shown.stream
            after = 0 if history else self._sent.get(stream.name, 0)
            points = stream.figures.points(after)
            if not history and points:
                self._sent[stream.name] = points[-1].number
            streams.append({**asdict(stream.info()), "viewers": shown.pictures.viewers, "points": points})
        uploads = [] if self.uploads is None else [asdict(job) for job in self.uploads.list()]
        content = {"time": time.time(), "history": history, "streams": streams, "uploads": uploads}
        return b"event: figures\ndata: " + json.dumps(content).encode() + b"\n\n"

    def _allowed(self, source: str) -> StreamConfig:
        config = self.config.stream_of(source)
        if config is None:
            names = [stream.name for stream in self.config.streams] + list(self.config.sources)
            raise SettingsError(f"source is one of {', '.join(names)}, as the configuration allows; got {source!r}")
        return config

    def _make_stream(self, config: StreamConfig) -> LiveStream:
        spec = self._make_spec(config)
        model, recorder = self._load(spec), None
        if self.config.record is not None:
            recorder = SegmentRecorder(self.config.record, config.name, model.segmenter.class_names)
        folder = Path(self._folder.name)
        return LiveStream(config, spec, model, self.executor, folder, self.config.retry_seconds, recorder)

    def _load(self, spec: ModelSpec) -> LoadedModel:
        model = self.models.get(spec)
        model.segmenter_for(spec)
        return model

    def _show(self, stream: LiveStream) -> None:
        assert self._loop is not None
        loop, results = self._loop, Channel(RESULT_DEPTH)

        def publish(result: FrameResult) -> None:
            if results.viewers:
                record = describe_result(result, areas=True, class_names=stream.model.segmenter.class_names)
                results.post(loop, b"event: result\ndata: " + json.dumps(record).encode() + b"\n\n")

        stream.on_result = publish
        self._shown[stream.name] = Shown(
            stream, Pictures(stream, loop, self.executor), results, OrderedDict[str, Snapshot]()
        )
        stream.start()

    def _disconnect(self, shown: Shown) -> None:
        shown.pictures.close()
        for viewer in list(shown.results.viewers):
            viewer.close()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK)
            if self.events.viewers:
                self.events.publish(self.summary())

    def _stop(self) -> None:
        shown = self.shown
        for item in shown:
            item.stream.stop()
        if self.uploads is not None:
            self.uploads.stop()
        if shown:
            with ThreadPoolExecutor(len(shown)) as pool:  # each stream may take a while to close its files
                list(pool.map(lambda item: item.stream.join(STOP_SECONDS), shown))
        self.executor.shutdown(wait=False, cancel_futures=True)
        self._folder.cleanup()


def _spec_of(config: ServeConfig, stream: StreamConfig) -> ModelSpec:
    settings = config.settings if stream.settings is None else stream.settings
    return make_model_spec(stream.model or config.model, settings)


def _free_name(source: str, taken: dict[str, Any]) -> str:
    """The name of a source, with a number if a stream already has that name."""
    number, name = 1, source
    while name in taken:
        number += 1
        name = f"{source[:36]}-{number}"
    return name
