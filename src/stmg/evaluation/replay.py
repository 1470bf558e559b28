"""Replay: a network's answers remembered, so that many schedules can be tried without running it again."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from stmg.streaming.flow import Flow, Map
from stmg.streaming.runtime import Output, Runtime
from stmg.video.frames import Image
from stmg.video.labels import Labels


class Replay(Runtime):
    """A runtime that already knows its network's answer to each image, by the array that holds it."""

    one_at_a_time = False

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._logits: dict[int, Any] = {}
        self.input_size, self.num_classes = runtime.input_size, runtime.num_classes
        self.foreground = runtime.foreground

    @property
    def description(self) -> str:
        return f"replay of {self._runtime.description}"

    def remember(self, image: Image, logits: Any) -> None:
        """The answer to an image, which must outlive this."""
        self._logits[id(image)] = logits

    def prepare(self, image: Image) -> int:
        return id(image)

    def full(self, prepared: int) -> Output:
        return Output(self._logits[prepared])

    def fuse(self, now: Any, before: Any, flow: Flow | None, share: Map) -> Any:
        return self._runtime.fuse(now, before, flow, share)

    def labels(self, logits: Any, size: tuple[int, int]) -> Labels:
        return self._runtime.labels(logits, size)

    def probability(self, logits: Any, size: tuple[int, int]) -> Map | None:
        return self._runtime.probability(logits, size)

    def logits_array(self, logits: Any) -> NDArray[np.float32] | None:
        return self._runtime.logits_array(logits)
