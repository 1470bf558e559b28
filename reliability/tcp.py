"""A live source that breaks off: a server that sends a video to each connection, then drops it."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress


class DroppingServer:
    """Sends `data` to one connection after the other; drops each but the last, which it holds until it is closed."""

    def __init__(self, data: bytes, drops: int) -> None:
        self._data, self._drops = data, drops
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._closing = threading.Event()
        self.url = f"tcp://127.0.0.1:{self._socket.getsockname()[1]}"
        self.connections = 0
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        self._thread.join(5)

    def _serve(self) -> None:
        with self._socket:
            while self.connections <= self._drops and not self._closing.is_set():
                connection, _ = self._socket.accept()
                self.connections += 1
                with connection, suppress(OSError):
                    connection.sendall(self._data)
                    if self.connections > self._drops:
                        self._closing.wait()
