"""A real server on loopback, and a camera that can be switched off and on."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from stmg.serve.config import ServeConfig, StreamConfig
from stmg.serve.run import make_server, open_socket, url_of
from stmg.serve.service import Service


@dataclass
class Running:
    """A server that runs."""

    url: str
    service: Service
    client: httpx.Client
    """Of the same origin as the page."""

    def get(self, path: str, **options: Any) -> Any:
        response = self.client.get(path, **options)
        assert response.status_code == 200, response.text
        return response.json()

    def wait(self, condition: Callable[[dict[str, Any]], bool], name: str, seconds: float = 60.0) -> dict[str, Any]:
        """The stream of this name, once something is true of it."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            info: dict[str, Any] = self.get(f"/api/streams/{name}")
            if condition(info):
                return info
            time.sleep(0.05)
        raise AssertionError(f"waited in vain; {info}")

    def wait_live(self, name: str) -> dict[str, Any]:
        return self.wait(lambda info: info["status"]["state"] == "live", name)


@contextmanager
def run_server(config: ServeConfig) -> Iterator[Running]:
    listener = open_socket(config.host, 0)
    service = Service(config)
    server = make_server(service)
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    url = url_of(listener)
    headers = {"origin": url.rstrip("/")}
    try:
        with httpx.Client(base_url=url, headers=headers, timeout=60) as client:
            for _ in range(200):
                try:
                    client.get("/healthz")
                    break
                except httpx.TransportError:
                    time.sleep(0.05)
            yield Running(url.rstrip("/"), service, client)
    finally:
        server.should_exit = True
        thread.join(10)
        assert not thread.is_alive()


def make_config(network_file: Path, shown: dict[str, str | Path], **fields: Any) -> ServeConfig:
    streams = tuple(StreamConfig(name=name, source=str(source)) for name, source in shown.items())
    fields = {"retry_seconds": (0.2, 1.0), "model": f"{network_file}:build", **fields}
    return ServeConfig(streams=streams, **fields)


class Camera:
    """A live source that can be switched off and on: a video sent over TCP, again and again, at its own rate."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._stopped = threading.Event()
        with socket.create_server(("127.0.0.1", 0)) as reserved:
            self.port = reserved.getsockname()[1]
        self.url = f"tcp://127.0.0.1:{self.port}"
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._stopped = threading.Event()
        listener = socket.create_server(("127.0.0.1", self.port))
        listener.settimeout(0.1)
        self._thread = threading.Thread(target=self._serve, args=(listener, self._stopped))
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()

    def _serve(self, listener: socket.socket, stopped: threading.Event) -> None:
        with listener:
            while not stopped.is_set():
                try:
                    connection, _ = listener.accept()
                except TimeoutError:
                    continue
                with connection:
                    self._send(connection, stopped)

    def _send(self, connection: socket.socket, stopped: threading.Event) -> None:
        step = max(188, len(self._data) // 50)
        try:
            while not stopped.is_set():
                for start in range(0, len(self._data), step):
                    connection.sendall(self._data[start : start + step])
                    if stopped.wait(0.02):
                        return
        except OSError:
            pass
