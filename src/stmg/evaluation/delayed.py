"""Delays: a network that takes so many frame intervals, exactly, whatever the machine is doing meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, NamedTuple, TypeVar

from stmg.video.labels import Labels

Value = TypeVar("Value")


class DelayedExecutor(Executor):
    """Finishes each run a fixed number of frame intervals after it started. Call `tick` once per interval.

    A run that is waited for is finished at once: the first frame of a stream has nothing else to show.

        executor = DelayedExecutor(intervals=2)
        stream = RealtimeStream(runtime, settings, executor)
        for frame in frames:
            executor.tick()
            result = stream.step(frame)
    """

    def __init__(self, intervals: int) -> None:
        assert intervals > 0, intervals
        self.intervals = intervals
        self.num_runs = 0
        """Started until now."""
        self._waiting: list[tuple[int, _Run[Any]]] = []
        self._now = 0

    def submit(self, function: Callable[..., Value], /, *args: Any, **kwargs: Any) -> Future[Value]:
        run: _Run[Value] = _Run(lambda: function(*args, **kwargs))
        self._waiting.append((self._now + self.intervals, run))
        self.num_runs += 1
        return run

    def tick(self) -> None:
        """The next frame has come."""
        self._now += 1
        for due, run in self._waiting:
            if due <= self._now:
                run.finish()
        self._waiting = [(due, run) for due, run in self._waiting if due > self._now]


class _Run(Future[Value]):
    """A call that is made when its time has come, or when somebody waits for it."""

    def __init__(self, call: Callable[[], Value]) -> None:
        super().__init__()
        self._call = call

    def finish(self) -> None:
        if not self.done():
            try:
                self.set_result(self._call())
            except Exception as error:  # raised where the result is taken
                self.set_exception(error)

    def result(self, timeout: float | None = None) -> Value:
        self.finish()
        return super().result(timeout)


class Shown(NamedTuple):
    """What is shown on a frame."""

    labels: Labels
    age: int
    """Frames since the one that they belong to."""
    started: bool
    """True if the network started on this frame."""


class LastFinished:
    """Copies the last labels that the network has finished, as one would without motion. The network never pauses.

    The first frame is waited for, as in realtime.
    """

    def __init__(self, intervals: int) -> None:
        self.intervals = intervals
        self._number = 0
        self._shown: tuple[int, Labels] | None = None
        self._running: tuple[int, Labels] | None = None

    def show(self, labels: Labels) -> Shown:
        """The labels to show on a frame; `labels` are the network's own of that frame, which it will know later."""
        now = (self._number, labels)
        if self._running is not None and self._number - self._running[0] >= self.intervals:
            self._shown, self._running = self._running, None
        started = self._running is None
        if self._shown is None:
            self._shown = now
        elif started:
            self._running = now
        self._number += 1
        return Shown(self._shown[1], now[0] - self._shown[0], started)
