"""Sinks: where the results of a stream go, and what all that write to a path have in common."""

from __future__ import annotations

import errno
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

import av

from stmg.streaming.state import FrameResult


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
        """Finish what was written; closing twice does no harm."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        try:
            self.close()
        except OSError:
            if kind is None:  # else the caller should see what went wrong first
                raise


class Sinks(Sink):
    """Several sinks as one. When some fail the others get their turn; then the first error is raised."""

    def __init__(self, *sinks: Sink) -> None:
        self.sinks = sinks

    def write(self, result: FrameResult) -> None:
        _for_all(self.sinks, lambda sink: sink.write(result))

    def close(self) -> None:
        _for_all(self.sinks, lambda sink: sink.close())


class FileSink(Sink):
    """A sink to one path: a file or a folder. An error closes it, so that what is already there stays as it is."""

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
        """Write one result, with `OSError` or PyAV's errors as they come."""

    def _finish(self) -> None:
        """Write what is still held back and let go of the file."""


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
    """Turn every failure to write into an `OSError` of one line that names the file."""
    try:
        yield
    except (OSError, av.FFmpegError) as error:
        number, reason = error.errno or errno.EIO, error.strerror or str(error)
        raise OSError(number, f"cannot write: {reason}", str(path)) from None
