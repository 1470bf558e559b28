"""Sinks: destinations of the results of a stream. The base classes, several sinks as one, and a sink in a thread."""

from __future__ import annotations

import errno
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

import av

from stmg.bounded_queue import BoundedQueue
from stmg.streaming.result import FrameResult

CAPACITY = 16  # results waiting to be written; in offline mode the results of a window arrive together


class Sink(ABC):
    """Takes the results of a stream one by one, until it is closed.

    A `with` block closes it:

        with Sinks(OverlayVideo("overlay.mp4", fps=25), Records("records.jsonl")) as sink:
            for result in segmenter.stream("drive.mp4"):
                sink.write(result)
    """

    @abstractmethod
    def write(self, result: FrameResult) -> None:
        """Take the next result."""

    @abstractmethod
    def close(self) -> None:
        """Finish writing. Calling it twice is safe."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        try:
            self.close()
        except OSError:
            if kind is None:  # otherwise the caller should see the first error
                raise


class Sinks(Sink):
    """Several sinks as one. If some fail, the others still get each result; then the first error is raised."""

    def __init__(self, *sinks: Sink) -> None:
        self.sinks = sinks

    def write(self, result: FrameResult) -> None:
        _for_all(self.sinks, lambda sink: sink.write(result))

    def close(self) -> None:
        _for_all(self.sinks, lambda sink: sink.close())


class BackgroundSink(Sink):
    """Writes to another sink in a thread, in order, so that drawing and encoding overlap with computing.

    `write` blocks while `capacity` results wait. The first error of the sink is raised by the next `write`, or by
    `close`. All results are written before the sink is closed, even after an error.
    """

    def __init__(self, sink: Sink, capacity: int = CAPACITY) -> None:
        self._sink = sink
        self._queue = BoundedQueue[FrameResult](capacity)
        self._closed = self._raised = False
        self._error: Exception | None = None  # the first error; written only by the thread
        self._thread = threading.Thread(target=self._run, name="write", daemon=True)

    def write(self, result: FrameResult) -> None:
        if self._closed:
            raise ValueError("this sink is closed and takes no more frames")
        if self._thread.ident is None:
            self._thread.start()
        self._queue.put(result)
        self._raise_error()

    def close(self) -> None:
        if self._closed:
            return
        self._queue.finish()
        if self._thread.ident is not None:
            self._thread.join()
        self._closed = True
        try:
            self._sink.close()
        finally:
            self._raise_error()  # the first error takes precedence

    def _raise_error(self) -> None:
        if self._error is not None and not self._raised:
            self._raised = True
            raise self._error

    def _run(self) -> None:
        while (result := self._queue.get()) is not None:
            try:
                self._sink.write(result)
            except Exception as error:
                self._error = self._error or error


class FileSink(Sink):
    """A sink that writes a file or folder. An error closes it, so that everything written before stays intact."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._closed = False

    def write(self, result: FrameResult) -> None:
        if self._closed:
            raise ValueError(f"{self.path} is closed and takes no more frames")
        with name_errors(self.path):
            try:
                self._write(result)
            except (OSError, av.FFmpegError):
                self._closed = True
                with suppress(OSError, av.FFmpegError):
                    self._finish()
                raise

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            with name_errors(self.path):
                self._finish()

    @abstractmethod
    def _write(self, result: FrameResult) -> None:
        """Write one result; may raise `OSError` or PyAV's errors."""

    def _finish(self) -> None:
        """Write anything that is still held back, and close the file."""


def _for_all(sinks: tuple[Sink, ...], act: Callable[[Sink], None]) -> None:
    errors = []
    for sink in sinks:
        try:
            act(sink)
        except Exception as error:
            errors.append(error)
    if errors:
        raise errors[0]


@contextmanager
def name_errors(path: Path) -> Iterator[None]:
    """Turn every failure to write into a one-line `OSError` that names the file."""
    try:
        yield
    except (OSError, av.FFmpegError) as error:
        number, reason = error.errno or errno.EIO, error.strerror or str(error)
        raise OSError(number, f"cannot write: {reason}", str(path)) from None
