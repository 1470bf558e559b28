"""Segmenters for sources of any size, from a model that is loaded once."""

from __future__ import annotations

from dataclasses import replace

from stmg.checkpoints.resolve import ModelSpec, is_graph_file, is_network, resolve, working_size
from stmg.checkpoints.user_code import call_user_function, is_user_function
from stmg.segmenter import VideoSegmenter
from stmg.streaming.delay import limit_delay
from stmg.streaming.working_size import choose_size

Size = tuple[int, int]


class SourceSegmenters:
    """The segmenters of one model: each at the size to work at for its source, all over the same weights."""

    def __init__(self, spec: ModelSpec) -> None:
        self.spec = spec
        self._loaded: dict[Size | None, VideoSegmenter] = {}

    def open(self, source_size: Size | None, delay: int | None = None) -> VideoSegmenter:
        """The segmenter for a source of this size, with windows as short as the delay asks for."""
        options = dict[str, object]()
        segmenter, own = self._load(source_size)
        size = choose_size(self.spec.size, own, source_size, segmenter.runtime.input_size)
        if size is not None:
            options["working_size"] = size
        if delay is not None:
            options["offline"] = limit_delay(segmenter.settings.offline, delay)
        return segmenter.another(**options)

    def check(self) -> tuple[str, ...]:
        """Load the model, or at least see that there is one, before the size of any source is known; notes on it."""
        if is_user_function(self.spec.name):  # what it gives may take frames of one size only
            call_user_function(self.spec.name)
            return ()
        return self.open(self.spec.size).runtime.notes

    def _load(self, source_size: Size | None) -> tuple[VideoSegmenter, Size | None]:
        """The model, and the size that is its own."""
        name = self.spec.name
        if self.spec.size is None and (is_user_function(name) or is_network(name)):
            if source_size not in self._loaded:  # such a network may take frames of one size only
                self._loaded = {source_size: resolve(replace(self.spec, size=source_size))}
            segmenter = self._loaded[source_size]
            return segmenter, segmenter.runtime.input_size
        if None not in self._loaded:
            self._loaded[None] = resolve(self.spec)
        segmenter = self._loaded[None]
        return segmenter, segmenter.runtime.input_size if is_graph_file(name) else working_size(self.spec)
