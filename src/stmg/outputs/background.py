"""Background: a sink that writes in a thread of its own, so that drawing and encoding overlap with computing."""

from __future__ import annotations

import threading
from collections import deque

from stmg.outputs.sink import Sink
from stmg.streaming.state import FrameResult

CAPACITY = 16  # results that wait to be written; a window of offline results comes at once


class Background(Sink):
    """Hands results to another sink in a thread, in order; a full queue makes the caller wait.

    The first error of the sink is raised by the next `write`, or by `close`. Whatever was handed over is written before
    it is closed, after an error too, to those of several sinks that still take it.
    """

    def __init__(self, sink: Sink, capacity: int = CAPACITY) -> None:
        self._sink, self._capacity = sink, capacity
        self._waiting: deque[FrameResult] = deque()
        self._changed = threading.Condition()
        self._closing = self._closed = False
        self._error: Exception | None = None
        self._failed = False
        self._thread = threading.Thread(target=self._run, name="write", daemon=True)

    def write(self, result: FrameResult) -> None:
        if self._closing:
            raise ValueError("this sink is closed and takes no more frames")
        if self._thread.ident is None:
            self._thread.start()
        with self._changed:
            self._changed.wait_for(lambda: self._error is not None or len(self._waiting) < self._capacity)
            self._waiting.append(result)
            self._changed.notify_all()
        self._raise_error()

    def close(self) -> None:
        if self._closed:
            return
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self._thread.ident is not None:
            self._thread.join()
        self._closed = True
        try:
            self._sink.close()
        finally:
            self._raise_error()  # what went wrong first

    def _raise_error(self) -> None:
        with self._changed:
            error, self._error = self._error, None
        if error is not None:
            raise error

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closing)
                if not self._waiting:
                    return
                result = self._waiting[0]
            try:
                self._sink.write(result)
            except Exception as error:
                if not self._failed:
                    self._error, self._failed = error, True
            with self._changed:
                self._waiting.popleft()
                self._changed.notify_all()
