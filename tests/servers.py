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
from unittest import mock

import httpx

from stmg.serve.config import ServeConfig, StreamConfig
from stmg.serve.run import make_server, open_socket, url_of
from stmg.serve.service import Service
from waiting import PATIENCE, wait_for


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

    def wait(self, condition: Callable[[dict[str, Any]], object], name: str) -> dict[str, Any]:
        """The stream of this name, once something is true of it."""
        return wait_for(lambda: self.get(f"/api/streams/{name}"), condition)

    def wait_live(self, name: str) -> dict[str, Any]:
        return self.wait(lambda info: info["status"]["state"] == "live", name)

    def wait_frames(self, name: str, number: int) -> dict[str, Any]:
        """The stream of this name, once so many more frames of it have results."""
        before = count_frames(self.get(f"/api/streams/{name}"))
        return self.wait(lambda info: count_frames(info) >= before + number, name)

    @contextmanager
    def paused(self, name: str, **controls: Any) -> Iterator[int]:
        """Pause a stream meanwhile: no result comes any more, as a frame came that was not shown; the last one's index.

        controls: changed too, and not changed back.
        """
        shown = self.service.find(name)
        assert shown is not None
        figures, came = shown.stream.figures, threading.Event()
        arrive = figures.arrive
        with mock.patch.object(figures, "arrive", lambda dropped: (arrive(dropped), came.set())):
            assert self.client.patch(f"/api/streams/{name}", json={"paused": True, **controls}).status_code == 200
            came.clear()
            assert came.wait(PATIENCE)
        try:
            yield self.get(f"/api/streams/{name}")["figures"]["frame_index"]
        finally:
            self.client.patch(f"/api/streams/{name}", json={"paused": False})


def count_frames(info: dict[str, Any]) -> int:
    """Results of a stream until now."""
    return sum(info["figures"]["frames"].values())


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
        thread.join(60)
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
        # Bound as long as it is there, so that nobody else gets the port while it is switched off.
        self._reserved = socket.socket()
        self._reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._reserved.bind(("127.0.0.1", 0))
        self.port = self._reserved.getsockname()[1]
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

    def close(self) -> None:
        self.stop()
        self._reserved.close()

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
