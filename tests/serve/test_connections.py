"""Connections that nobody uses are closed; those on which an answer goes on stay."""

from __future__ import annotations

import asyncio
import socket
import time
from urllib.parse import urlsplit

import pytest
import uvicorn

from servers import make_config, run_server
from stmg.serve import connections, safety
from stmg.serve.connections import Connection
from stmg.serve.run import make_server
from stmg.serve.service import Service

HEAD = b"GET / HTTP/1.1\r\nHost: localhost\r\n"


async def answer_slowly(scope, receive, send):
    """An answer that takes longer than a request may."""
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"o", "more_body": True})
    await asyncio.sleep(0.6)
    await send({"type": "http.response.body", "body": b"k"})


def talk(*requests: bytes, seconds: float = 3.0) -> tuple[bytes, list[int]]:
    """What comes back until the connection is closed, and the options of the server's side of it.

    Each request is sent after 0.1 s, the others when it is answered.
    """
    options: list[int] = []

    class Watched(Connection):
        def connection_made(self, transport):
            super().connection_made(transport)
            taken = transport.get_extra_info("socket")
            options.append(taken.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE))
            options.append(taken.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE))

    async def run() -> bytes:
        config = uvicorn.Config(answer_slowly, http=Watched, log_config=None, lifespan="off", timeout_keep_alive=60)
        state = uvicorn.server.ServerState()
        server = await asyncio.get_running_loop().create_server(lambda: Watched(config, state, {}), "127.0.0.1", 0)
        async with server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            answers = b""
            for request in requests:
                await asyncio.sleep(0.1)
                writer.write(request)
                if request.endswith(b"\r\n\r\n"):
                    answers += await asyncio.wait_for(reader.readuntil(b"ok"), seconds)
            answers += await asyncio.wait_for(reader.read(), seconds)
            writer.close()
            return answers

    return asyncio.run(run()), options


@pytest.mark.parametrize("requests", [(), (HEAD,), (HEAD, b"X: 1\r\n", b"X: 2\r\n"), (HEAD + b"\r\n", HEAD)])
def test_a_request_that_does_not_come_closes_its_connection(monkeypatch, requests):
    monkeypatch.setattr(connections, "REQUEST_SECONDS", 0.4)
    answers, options = talk(*requests)
    whole = sum(request.endswith(b"\r\n\r\n") for request in requests)
    assert answers.count(b"200 OK") == answers.count(b"ok") == whole
    assert options == [1, connections.SILENT_SECONDS]  # the system asks whether the other side is still there


def test_a_connection_is_used_again_while_requests_come(monkeypatch):
    monkeypatch.setattr(connections, "REQUEST_SECONDS", 0.4)
    answers, _ = talk(*[HEAD + b"\r\n"] * 3)
    assert answers.count(b"ok") == 3


def test_heads_are_bounded_and_so_are_connections(network_file, video):
    service = Service(make_config(network_file, {"clip": video}, viewers=300))
    settings = make_server(service).config
    assert settings.http is Connection
    assert settings.limit_concurrency > 300
    with run_server(make_config(network_file, {"clip": video})) as server:
        url = urlsplit(server.url)
        with socket.create_connection((url.hostname, url.port), timeout=5) as connection:
            connection.sendall(HEAD + b"X: " + b"y" * 40000)
            assert b" 400 " in connection.recv(4096).split(b"\r\n")[0]


def test_a_body_that_does_not_come_is_waited_for_in_vain(network_file, video, monkeypatch):
    monkeypatch.setattr(safety, "BODY_SECONDS", 0.3)
    with run_server(make_config(network_file, {"clip": video}, viewers=1)) as server:
        url = urlsplit(server.url)
        head = f"Host: {url.netloc}\r\nOrigin: {server.url}\r\nContent-Length: 20\r\n\r\n"
        for request in ("POST /api/session", "GET /api/events"):
            with socket.create_connection((url.hostname, url.port), timeout=5) as connection:
                connection.sendall(f"{request} HTTP/1.1\r\n{head}".encode())
                assert connection.recv(4096).startswith(b"HTTP/1.1 ")
                while request.startswith("GET") and not connection.recv(65536).endswith(b"0\r\n\r\n"):
                    pass
        end = time.monotonic() + 5
        while server.service.viewers:
            assert time.monotonic() < end
            time.sleep(0.02)
