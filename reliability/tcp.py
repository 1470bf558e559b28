"""A live source that breaks off: a server that sends a video to each connection, then drops it."""

from __future__ import annotations

import socket
from contextlib import suppress
from pathlib import Path

from reliability.processes import Limits, Run

HOURS = 3600.0


class DroppingServer:
    """Sends `data` to one connection after the other; drops each but the last, which it holds until it is closed.

    It has a process of its own, so that what its client holds can be counted.
    """

    def __init__(self, data: bytes, drops: int, log: Path) -> None:
        listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"tcp://127.0.0.1:{listening.getsockname()[1]}"
        self._run = Run(lambda: _serve(listening, data, drops), log, Limits(seconds=HOURS))
        self._log = log
        listening.close()

    @property
    def connections(self) -> int:
        """How many there were so far."""
        return len((self._log / "stdout.txt").read_text().splitlines())

    def close(self) -> None:
        self._run.kill()


def _serve(listening: socket.socket, data: bytes, drops: int) -> None:
    for number in range(drops + 1):
        connection, _ = listening.accept()
        print(number, flush=True)
        with connection, suppress(OSError):
            connection.sendall(data)
            if number == drops:
                connection.recv(1)  # until the client goes
