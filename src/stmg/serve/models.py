"""Models: each loaded once, however many streams use it, and one worker that runs the networks in the background."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stmg.models.load import resolve, working_size
from stmg.models.spec import ModelSpec
from stmg.segmenter import VideoSegmenter
from stmg.serve.figures import LiveStatistics
from stmg.streaming.realtime import step_back
from stmg.streaming.settings import MODEL, settings_for


@dataclass(frozen=True)
class Model:
    """A loaded model."""

    name: str
    """Without the folders it lies in, but for those by which it differs from others."""
    spec: ModelSpec
    segmenter: VideoSegmenter

    def segmenter_for(self, spec: ModelSpec, **options: Any) -> VideoSegmenter:
        """A segmenter over the same weights, with the streaming options of a spec and those given here."""
        streaming = {name: value for name, value in spec.options.items() if name not in settings_for(MODEL)}
        mode = options.get("mode")
        if mode is not None and not spec.settings.can_run(mode):
            streaming["scheduler"] = None  # it is for another mode; this one has the model's own
        return self.segmenter.another(**{**streaming, **options})


class Models:
    """Loads models; streams whose specs differ only in how they stream share one."""

    def __init__(self, load: Callable[[ModelSpec], VideoSegmenter] = resolve) -> None:
        self._load, self._lock = load, threading.Lock()
        self._loaded: list[Model] = []
        # One worker: a network uses all cores by itself, and two at once would both be late.
        self.executor = ThreadPoolExecutor(1, thread_name_prefix="stmg-network", initializer=step_back)

    def get(self, spec: ModelSpec) -> Model:
        """The model of a spec, loaded if it is not yet."""
        if spec.settings.size is not None:
            working_size(spec)  # refuses one that the model cannot have
        key = ModelSpec(spec.name, {name: value for name, value in spec.options.items() if name in settings_for(MODEL)})
        with self._lock:
            for model in self._loaded:
                if model.spec == key:
                    return model
            model = Model(self._name(spec.name), key, self._load(key))
            self._loaded.append(model)
            return model

    @property
    def loaded(self) -> list[Model]:
        return list(self._loaded)

    def _name(self, path: str) -> str:
        """The end of a path that no other model is called by; the same path with other options is numbered."""
        taken, parts = {model.name for model in self._loaded}, Path(path).parts
        ends = [Path(*parts[at:]).as_posix() for at in range(len(parts) - 1, -1, -1)] or [path]
        numbered = (f"{ends[0]} ({number})" for number in range(2, len(taken) + 3))
        return next(name for name in (*ends, *numbered) if name not in taken)

    def close(self) -> None:
        """Let the worker end after the run it is at."""
        self.executor.shutdown(wait=False, cancel_futures=True)


class TimedExecutor(Executor):
    """Passes on to another executor the runs of one stream, and times them."""

    def __init__(self, executor: Executor, statistics: LiveStatistics) -> None:
        self._executor, self._statistics = executor, statistics

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        def run() -> Any:
            begun = time.perf_counter()
            value = function(*args, **kwargs)
            self._statistics.time_network(1000 * (time.perf_counter() - begun))
            return value

        return self._executor.submit(run)
