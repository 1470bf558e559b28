"""Replay: a network's answers remembered, so that many schedules can be tried without running it again."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stmg.streaming.cost import Cost
from stmg.streaming.flow import Flow, Map
from stmg.streaming.masks import Masks
from stmg.streaming.runtime import Output, Runtime
from stmg.streaming.schedulers import Level
from stmg.video.frames import Image
from stmg.video.labels import Labels


class Replay:
    """A runtime that already knows its network's answer to each image, by the array that holds it."""

    has_mask_generator = False
    num_blocks = 0
    one_at_a_time = False
    notes: tuple[str, ...] = ()

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._logits: dict[int, Any] = {}

    @property
    def description(self) -> str:
        return f"replay of {self._runtime.description}"

    @property
    def input_size(self) -> tuple[int, int] | None:
        return self._runtime.input_size

    @property
    def num_classes(self) -> int | None:
        return self._runtime.num_classes

    @property
    def threshold(self) -> float:
        return self._runtime.threshold

    def remember(self, image: Image, logits: Any) -> None:
        """The answer to an image, which must outlive this."""
        self._logits[id(image)] = logits

    def for_throughput(self) -> Replay:
        return self

    def begin_worker(self) -> None:
        """Nothing is computed."""

    def expect_partial(self) -> None:
        """A scheduler that is not used may ask for it."""

    def exact_patterns(self) -> AbstractContextManager[None]:
        return nullcontext()

    def prepare(self, image: Image) -> int:
        return id(image)

    def encode(self, prepared: Any) -> Any:
        raise NotImplementedError("nothing is masked in a replay")

    def compare(self, before: Any, now: Any, flow: Flow | None) -> Masks:
        raise NotImplementedError("nothing is masked in a replay")

    def full(self, prepared: int) -> Output:
        return Output(None, self._logits[prepared])

    def partial(self, prepared: Any, masks: Masks, previous: Any, flow: Flow | None, scale: float) -> Output:
        raise NotImplementedError("nothing is partial in a replay")

    def fuse(self, now: Any, before: Any, flow: Flow | None, share: Map) -> Any:
        return self._runtime.fuse(now, before, flow, share)

    def labels(self, logits: Any, size: tuple[int, int]) -> Labels:
        return self._runtime.labels(logits, size)

    def probability(self, logits: Any, size: tuple[int, int]) -> Map | None:
        return self._runtime.probability(logits, size)

    def logits_array(self, logits: Any) -> NDArray[np.float32] | None:
        return self._runtime.logits_array(logits)

    def cost(
        self, size: tuple[int, int], level: Level, keep: tuple[bool, ...], scale: float, masked: bool
    ) -> Cost | None:
        return None
