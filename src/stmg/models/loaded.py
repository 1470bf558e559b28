"""Loaded models, shared by all sources and streams that use them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from stmg.errors import SettingsError
from stmg.models.load import Size, refuse_size, resolve
from stmg.models.names import is_code, is_user_function
from stmg.models.spec import ModelSpec
from stmg.models.user_code import call_user_function
from stmg.segmenter import VideoSegmenter
from stmg.streaming.settings import is_for_opening

Load = Callable[[ModelSpec], VideoSegmenter]


class LoadedModel:
    """A model that is loaded when it is first needed. All of its segmenters share the weights.

    name: the shortest end of its path that no other model has.
    spec: the first spec that asked for the model.
    """

    def __init__(self, name: str, spec: ModelSpec, load: Load = resolve) -> None:
        self.name, self.spec = name, spec
        self._load, self._lock = load, threading.Lock()
        self._segmenter: VideoSegmenter | None = None
        self._built_for: Size | None = None

    @property
    def segmenter(self) -> VideoSegmenter:
        """A segmenter with the model's own streaming settings."""
        return self._open(None)

    def segmenter_for(self, spec: ModelSpec, source_size: Size | None = None, **options: Any) -> VideoSegmenter:
        """A segmenter for a stream, with the streaming settings of a spec. Options override these.

        source_size: size of the source. A network in code may take frames of one size only, so it is built again for a
            source of another size.
        """
        model = self._open(source_size)
        streaming = {name: value for name, value in spec.options.items() if not is_for_opening(name)}
        mode = options.get("mode")
        if mode is not None and not spec.settings.can_run(mode):
            streaming["scheduler"] = None  # it belongs to another mode; use the model's own
        if "default_schedulers" in streaming:
            streaming["default_schedulers"] = {**model.settings.default_schedulers, **streaming["default_schedulers"]}
        return model.another(**{"size": None, **streaming, **options})

    def check(self) -> tuple[str, ...]:
        """Load the model, or only its code while the size of the source is unknown. Return notes on it."""
        if is_user_function(self.spec.name):  # its network may take frames of one size only
            call_user_function(self.spec.name)
            return ()
        return self.segmenter.runtime.notes

    def _open(self, source_size: Size | None) -> VideoSegmenter:
        size = (self.spec.settings.size or source_size) if is_code(self.spec.name) else self.spec.settings.size
        with self._lock:
            if self._segmenter is None or (source_size is not None and size != self._built_for):
                options = {name: value for name, value in self.spec.options.items() if is_for_opening(name)}
                self._segmenter = self._load(ModelSpec(self.spec.name, {**options, "size": size}))
                self._built_for = size
            return self._segmenter


class LoadedModels:
    """Models by name and options. Streams that differ only in their streaming settings share one."""

    def __init__(self, load: Load = resolve) -> None:
        self._load, self._lock = load, threading.Lock()
        self._models: list[LoadedModel] = []

    def get(self, spec: ModelSpec) -> LoadedModel:
        """The model of a spec. It is loaded when it is first needed."""
        if spec.settings.size is not None:
            refuse_size(spec)
        with self._lock:
            for model in self._models:
                if _key(model.spec) == _key(spec):
                    return model
            model = LoadedModel(self._name(spec.name), spec, self._load)
            self._models.append(model)
            return model

    def named(self, name: str | None) -> LoadedModel:
        """The model of this name. None: the first model."""
        for model in self._models:
            if name in (None, model.name):
                return model
        raise SettingsError(f"model is one of {', '.join(self.names)}; got {name!r}")

    @property
    def names(self) -> list[str]:
        return [model.name for model in self._models]

    def _name(self, path: str) -> str:
        """The shortest end of a path that no other model has, with a number if only the options differ."""
        parts = Path(path).parts
        ends = [Path(*parts[at:]).as_posix() for at in range(len(parts) - 1, -1, -1)] or [path]
        numbered = (f"{ends[0]} ({number})" for number in range(2, len(self._models) + 3))
        return next(name for name in (*ends, *numbered) if name not in self.names)


def _key(spec: ModelSpec) -> tuple[str, dict[str, Any]]:
    return spec.name, {name: value for name, value in spec.options.items() if is_for_opening(name)}
