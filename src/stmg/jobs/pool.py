"""Pools: who does the tasks of a batch. This one does them here, one after the other; `ray_pool.py` has another."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from stmg.jobs.task import BatchSettings, Outcome, Task
from stmg.jobs.worker import Worker


class Pool(Protocol):
    """Takes tasks and gives back their outcomes, in any order."""

    def start(self) -> tuple[str, ...]:
        """Load the model; notes on it. An error if nobody can."""

    def has_room(self) -> bool:
        """Whether a task handed in now would be begun at once."""

    def submit(self, task: Task) -> None:
        """Hand in a task."""

    def wait(self) -> Iterator[Outcome]:
        """The outcomes of a second or so, perhaps none."""

    def progress(self) -> float:
        """How much of the tasks handed in and not given back is done, in bytes of video."""

    def close(self) -> None:
        """Stop whatever still runs."""


class LocalPool:
    """One worker in this process; `tick` is called after every frame."""

    def __init__(self, settings: BatchSettings, out: str, tick: Callable[[], None]) -> None:
        self._worker = Worker(settings, out, tick)
        self._task: Task | None = None

    def start(self) -> tuple[str, ...]:
        return self._worker.load()

    def has_room(self) -> bool:
        return self._task is None

    def submit(self, task: Task) -> None:
        self._task = task

    def wait(self) -> Iterator[Outcome]:
        if self._task is not None:
            outcome = self._worker.run(self._task)
            self._task = None
            yield outcome

    def progress(self) -> float:
        return 0.0 if self._task is None else self._worker.progress() * self._task.size

    def close(self) -> None:
        """Nothing runs between two calls."""
