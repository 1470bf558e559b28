"""Opening videos with FFmpeg, with timeouts, and interruptible by Ctrl-C, which FFmpeg itself is not."""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import av

from stmg.errors import VideoError

NETWORK_TIMEOUT = 10.0  # maximum seconds that a network stream may take to open, or stay silent
PIPE_TIMEOUT = 30.0  # maximum seconds of silence while a pipe is opened, because its sender may have to start first


class Pipe:
    """A pipe, such as standard input. A thread that waits for it can be stopped.

    owned: close the descriptor together with the pipe.
    """

    stopped: threading.Event

    def __init__(self, descriptor: int, *, owned: bool = False) -> None:
        self._descriptor, self._owned = descriptor, owned
        self._received_at: float | None = None
        self.silent = False
        """True if it was silent for so long while being opened that it counts as ended."""

    def read(self, size: int) -> bytes:
        while not (self.stopped.is_set() or self.silent):
            # On Windows `select` takes only sockets, so the read itself blocks.
            if os.name == "nt" or select.select([self._descriptor], [], [], 0.2)[0]:
                try:
                    data = os.read(self._descriptor, size)
                except BlockingIOError:  # another reader was faster
                    continue
                if self._received_at is not None:
                    self._received_at = time.monotonic()
                return data
            self.silent = self._received_at is not None and time.monotonic() - self._received_at > PIPE_TIMEOUT
        return b""

    @contextmanager
    def opening(self) -> Iterator[None]:
        """Inside this context a long silence ends the pipe. Outside, the sender may pause for any time."""
        self._received_at = time.monotonic()
        try:
            yield
        finally:
            self._received_at = None

    def close(self) -> None:
        """Close the descriptor, if it is owned."""
        if self._owned:
            os.close(self._descriptor)
            self._owned = False


def open_container(source: Any, options: dict[str, str], timeout: float | None, stopped: threading.Event) -> Any:
    """Call `av.open` in a thread, so that Ctrl-C interrupts the caller, and setting `stopped` makes it return."""
    opening = _Opening(source, options, timeout)
    opening.start()
    try:
        while opening.is_alive():
            opening.join(0.1)
            if stopped.is_set():
                raise VideoError("closed while it was opened")
    except BaseException:
        stopped.set()  # ends a thread that waits for a pipe; a thread that waits for a network ends at its timeout
        opening.abandon()
        raise
    if opening.error is not None:
        raise opening.error
    return opening.container


class _Opening(threading.Thread):
    def __init__(self, source: Any, options: dict[str, str], timeout: float | None) -> None:
        super().__init__(name="open", daemon=True)
        self._source, self._options, self._timeout = source, options, timeout
        self._lock = threading.Lock()
        self._abandoned = False
        self.container: Any = None
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            container = av.open(
                self._source, "r", options=self._options, timeout=self._timeout, metadata_errors="ignore"
            )
        except Exception as error:
            self.error = error
            return
        with self._lock:
            if self._abandoned:
                container.close()
            else:
                self.container = container

    def abandon(self) -> None:
        """Close the container: now, or as soon as it is open."""
        with self._lock:
            self._abandoned = True
            if self.container is not None:
                self.container.close()
