"""Idle connections are closed; those with a running response stay open."""

from __future__ import annotations

import asyncio
import socket
from urllib.parse import urlsplit

import pytest
import uvicorn

from servers import make_config, run_server
from stmg.serve import run as run_module
from stmg.serve import safety
from stmg.serve.run import Connection, make_server
from stmg.serve.service import Service
from waiting import PATIENCE, wait_for

HEAD = b"GET / HTTP/1.1\r\nHost: localhost\r\n"


class Unhurried(asyncio.SelectorEventLoop):
    """An event loop whose clock stands still unless it is set forward."""

    now = 0.0

    def time(self) -> float:
        return self.now


async def pass_time(seconds: float) -> None:
    """Set the clock forward, and let happen what is then due."""
    asyncio.get_running_loop().now += seconds
    for _ in range(3):
        await asyncio.sleep(0)


async def answer_slowly(scope, receive, send):
    """An answer that takes longer than a request may."""
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"o", "more_body": True})
    await pass_time(1.5 * run_module.REQUEST_SECONDS)
    await send({"type": "http.response.body", "body": b"k"})


def talk(*requests: bytes) -> tuple[bytes, list[int]]:
    """What comes back until the connection is closed, and the options of the server's side of it.

    A quarter of the time that a request may take passes before each of them; the next is sent when it is answered.
    """
    options: list[int] = []
    made = asyncio.Event()

    class Watched(Connection):
        def connection_made(self, transport):
            super().connection_made(transport)
            taken = transport.get_extra_info("socket")
            options.append(taken.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE))
            options.append(taken.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE))
            options.append(taken.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT))
            made.set()

    async def run() -> bytes:
        config = uvicorn.Config(answer_slowly, http=Watched, log_config=None, lifespan="off", timeout_keep_alive=60)
        state = uvicorn.server.ServerState()
        server = await asyncio.get_running_loop().create_server(lambda: Watched(config, state, {}), "127.0.0.1", 0)
        async with server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            await made.wait()
            answers, waited = b"", 0.0
            for request in requests:
                await pass_time(run_module.REQUEST_SECONDS / 4)
                waited += run_module.REQUEST_SECONDS / 4
                writer.write(request)
                if request.endswith(b"\r\n\r\n"):
                    answers += await reader.readuntil(b"ok")
                    waited = 0.0
            await pass_time(run_module.REQUEST_SECONDS - waited - 0.1)
            assert not reader.at_eof()
            await pass_time(0.2)
            answers += await reader.read()
            writer.close()
            return answers

    with asyncio.Runner(loop_factory=Unhurried) as runner:
        return runner.run(run()), options


@pytest.mark.parametrize("requests", [(), (HEAD,), (HEAD, b"X: 1\r\n", b"X: 2\r\n"), (HEAD + b"\r\n", HEAD)])
def test_a_request_that_does_not_come_closes_its_connection(requests):
    answers, options = talk(*requests)
    whole = sum(request.endswith(b"\r\n\r\n") for request in requests)
    assert answers.count(b"200 OK") == answers.count(b"ok") == whole
    # The system asks whether the other side is still there, and does not wait for ever for it to acknowledge.
    assert options == [1, run_module.SILENT_SECONDS, 30_000]


def test_a_connection_is_used_again_while_requests_come():
    answers, _ = talk(*[HEAD + b"\r\n"] * 3)
    assert answers.count(b"ok") == 3


def test_heads_are_bounded_and_so_are_connections(network_file, video):
    service = Service(make_config(network_file, {"clip": video}, viewers=300))
    settings = make_server(service).config
    assert settings.http is Connection
    assert settings.limit_concurrency > 300
    with run_server(make_config(network_file, {"clip": video})) as server:
        url = urlsplit(server.url)
        with socket.create_connection((url.hostname, url.port), timeout=PATIENCE) as connection:
            connection.sendall(HEAD + b"X: " + b"y" * 40000)
            assert b" 400 " in connection.recv(4096).split(b"\r\n")[0]


def test_a_body_that_does_not_come_is_waited_for_in_vain(network_file, video, monkeypatch):
    monkeypatch.setattr(safety, "BODY_SECONDS", 0.3)
    with run_server(make_config(network_file, {"clip": video}, viewers=1)) as server:
        url = urlsplit(server.url)
        head = f"Host: {url.netloc}\r\nOrigin: {server.url}\r\nContent-Length: 20\r\n\r\n"
        for request in ("POST /api/session", "GET /api/events"):
            with socket.create_connection((url.hostname, url.port), timeout=PATIENCE) as connection:
                connection.sendall(f"{request} HTTP/1.1\r\n{head}".encode())
                assert connection.recv(4096).startswith(b"HTTP/1.1 ")
                while request.startswith("GET") and not connection.recv(65536).endswith(b"0\r\n\r\n"):
                    pass
        wait_for(lambda: server.service.viewers, lambda viewers: viewers == 0)
