"""Stand-ins: a runtime of one size, a network that needs much memory, a worker that counts frames."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stmg.streaming.runtime import Runtime


def fix_size(runtime: Runtime, size: tuple[int, int]) -> Runtime:
    """The same for frames of one size, as exports are."""
    fixed = copy(runtime)
    fixed.input_size = size
    return fixed


HOARD = 400_000_000


def hoard(image: NDArray[np.uint8]) -> NDArray[np.float32]:
    """A network that takes `HOARD` bytes while it computes a frame, and gives them back."""
    np.ones(HOARD, np.uint8).sum()
    return np.zeros((2, *image.shape[:2]), np.float32)


class Worker:
    """An executor whose tasks take so many frame intervals."""

    def __init__(self, intervals: int) -> None:
        self.intervals, self.started = intervals, 0
        self.waiting: list[tuple[int, Eager]] = []

    def submit(self, function: Callable[..., Any], *args: Any) -> Eager:
        future = Eager(function, args)
        self.waiting.append((self.intervals, future))
        self.started += 1
        return future

    def tick(self) -> None:
        self.waiting = [(left - 1, future) for left, future in self.waiting]
        for left, future in self.waiting:
            if left <= 0:
                future.run()
        self.waiting = [(left, future) for left, future in self.waiting if left > 0]


class Eager(Future[Any]):
    """A task that runs when somebody waits for it, or when its time has come."""

    def __init__(self, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
        super().__init__()
        self.function, self.args = function, args

    def run(self) -> None:
        if not self.done():
            try:
                self.set_result(self.function(*self.args))
            except Exception as error:
                self.set_exception(error)

    def result(self, timeout: float | None = None) -> Any:
        self.run()
        return super().result(timeout)
