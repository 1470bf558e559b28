"""Segmenters for sources of any size, from a model that is loaded once."""

from __future__ import annotations

from dataclasses import replace

from stmg.models.kinds import is_code, is_user_function
from stmg.models.resolve import ModelSpec, resolve
from stmg.models.user_code import call_user_function
from stmg.segmenter import VideoSegmenter
from stmg.streaming.delay import limit_delay

Size = tuple[int, int]


class SourceSegmenters:
    """The segmenters of one model, all over the same weights; each works at the size that its `stream` chooses."""

    def __init__(self, spec: ModelSpec) -> None:
        self.spec = spec
        self._loaded: dict[Size | None, VideoSegmenter] = {}

    def open(self, source_size: Size | None, delay: int | None = None) -> VideoSegmenter:
        """The segmenter for a source of this size, with windows as short as the delay asks for."""
        segmenter = self._load(source_size)
        options = dict[str, object]()
        if self.spec.size is not None:
            options["working_size"] = self.spec.size
        if delay is not None:
            options["offline"] = limit_delay(segmenter.settings.offline, delay)
        return segmenter.another(**options)

    def check(self) -> tuple[str, ...]:
        """Load the model, or at least see that there is one, before the size of any source is known; notes on it."""
        if is_user_function(self.spec.name):  # what it gives may take frames of one size only
            call_user_function(self.spec.name)
            return ()
        return self.open(self.spec.size).runtime.notes

    def _load(self, source_size: Size | None) -> VideoSegmenter:
        if self.spec.size is None and is_code(self.spec.name):
            if source_size not in self._loaded:  # such a network may take frames of one size only
                self._loaded = {source_size: resolve(replace(self.spec, size=source_size))}
            return self._loaded[source_size]
        if None not in self._loaded:
            self._loaded[None] = resolve(self.spec)
        return self._loaded[None]
