"""Stand-ins: a runtime that notes how it is used, a network that needs much memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stmg.streaming.runtime import Output, Runtime


class WatchedRuntime:
    """Passes everything on, and notes of each computed frame whether it had to have its exact pattern of blocks."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._depth = 0
        self.exact: list[bool] = []
        self.partial_frames = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._runtime, name)

    @contextmanager
    def exact_patterns(self) -> Iterator[None]:
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1

    def full(self, prepared: Any) -> Output:
        self.exact.append(self._depth > 0)
        return self._runtime.full(prepared)

    def partial(self, *arguments: Any) -> Output:
        self.exact.append(self._depth > 0)
        self.partial_frames += 1
        return self._runtime.partial(*arguments)


HOARD = 400_000_000


def hoard(image: NDArray[np.uint8]) -> NDArray[np.float32]:
    """A network that takes `HOARD` bytes while it computes a frame, and gives them back."""
    np.ones(HOARD, np.uint8).sum()
    return np.zeros((2, *image.shape[:2]), np.float32)
