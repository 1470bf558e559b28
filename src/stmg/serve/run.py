"""Run the server: its socket, its connections, its log, and serving until a signal stops it."""

from __future__ import annotations

import asyncio
import logging
import socket
import sys

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from stmg.errors import SettingsError
from stmg.serve.app import make_app
from stmg.serve.config import ServeConfig
from stmg.serve.service import Service
from stmg.signals import handle_ending

GRACE = 1  # seconds for unfinished answers when the server stops
LARGEST_HEAD = 32768  # bytes of a request before its body
OTHER_CONNECTIONS = 100  # besides two for each viewer; more are answered with 503
REQUEST_SECONDS = 10.0  # from the start of a connection, or the end of an answer, to a request with all of its headers
SILENT_SECONDS = 15  # silence after which the system probes a connection
PROBE_SECONDS, PROBES = 5, 3  # time between two probes, and how many may stay unanswered


class Server(uvicorn.Server):
    """uvicorn that first ends the responses to viewers."""

    def __init__(self, service: Service, settings: uvicorn.Config) -> None:
        super().__init__(settings)
        self._service = service

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._service.disconnect()
        await super().shutdown(sockets)


class Connection(H11Protocol):
    """uvicorn's HTTP/1.1 with time limits. Without them it waits forever for the rest of a request."""

    _waiting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        _notice_vanished(transport.get_extra_info("socket"))
        self._wait_for_request()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._stop_waiting()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._wait_for_request()

    def _wait_for_request(self) -> None:
        self._stop_waiting()
        self._waiting = self.loop.call_later(REQUEST_SECONDS, self._close_idle)

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()

    def _close_idle(self) -> None:
        if self.cycle is None or self.cycle.response_complete:  # otherwise a request is being answered
            self.transport.close()


def open_socket(host: str, port: int) -> socket.socket:
    """Open a socket to listen on, before anything is loaded, so that a bad address is reported immediately."""
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family, backlog=512)
    except OSError as error:
        raise SettingsError(f"cannot listen on {host} port {port}: {error.strerror}; try another --port") from None


def url_of(listener: socket.socket) -> str:
    """The URL of the page for a browser on this machine."""
    host, port = listener.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


def make_server(service: Service) -> Server:
    """A server to run; setting `should_exit` stops it."""
    settings = uvicorn.Config(
        make_app(service),
        log_config=None,
        access_log=False,  # addresses may contain secrets
        server_header=False,
        ws="none",
        timeout_graceful_shutdown=GRACE,
        proxy_headers=False,
        http=Connection,
        h11_max_incomplete_event_size=LARGEST_HEAD,
        limit_concurrency=2 * service.config.viewers + OTHER_CONNECTIONS,
    )
    return Server(service, settings)


def serve(service: Service, listener: socket.socket) -> None:
    """Serve until a signal such as SIGTERM or Ctrl-C. All files are closed on return."""
    set_up_log(service.config)
    server = make_server(service)

    def stop(*_: object) -> None:
        server.should_exit = True

    # uvicorn handles SIGTERM and Ctrl-C itself while it serves, and raises them again at its end.
    with handle_ending(stop):
        server.run([listener])


class LogFormatter(logging.Formatter):
    """Formats log lines without credentials, including tracebacks."""

    def __init__(self, config: ServeConfig) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s", "%H:%M:%S")
        self._config = config

    def format(self, record: logging.LogRecord) -> str:
        return self._config.hide_credentials(super().format(record))


def set_up_log(config: ServeConfig) -> None:
    """Log warnings and errors of the server to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LogFormatter(config))
    for name, level in (("stmg.serve", logging.INFO), ("uvicorn", logging.WARNING)):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level)


def _notice_vanished(connection: socket.socket) -> None:
    """Let the system close a connection whose other side no longer answers, soon where the time can be set."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", SILENT_SECONDS),
        ("TCP_KEEPALIVE", SILENT_SECONDS),  # the name on macOS
        ("TCP_KEEPINTVL", PROBE_SECONDS),
        ("TCP_KEEPCNT", PROBES),
        # Probes stop while data is being sent. This limits how long the data may stay unacknowledged.
        ("TCP_USER_TIMEOUT", 1000 * (SILENT_SECONDS + PROBES * PROBE_SECONDS)),
    ):
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
