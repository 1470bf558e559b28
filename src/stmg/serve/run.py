"""Running the server: from a configuration to a process that serves until it is told to stop."""

from __future__ import annotations

import logging
import socket
import sys

import uvicorn

from stmg.errors import SettingsError
from stmg.serve.app import make_app
from stmg.serve.config import ServeConfig
from stmg.serve.connections import Connection
from stmg.serve.service import Service
from stmg.signals import handle_ending

GRACE = 1  # seconds for answers under way when the server stops
LARGEST_HEAD = 32768  # bytes of a request before its body
OTHERS = 100  # connections there may be besides two for each viewer; more are answered with 503


class Server(uvicorn.Server):
    """uvicorn, which first ends the answers that would go on for ever."""

    def __init__(self, service: Service, settings: uvicorn.Config) -> None:
        super().__init__(settings)
        self._service = service

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._service.send_away()
        await super().shutdown(sockets)


def open_socket(host: str, port: int) -> socket.socket:
    """A socket to listen on; an address that cannot be had is said before anything is loaded."""
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family, backlog=512)
    except OSError as error:
        raise SettingsError(f"cannot listen on {host} port {port}: {error.strerror}; try another --port") from None


def url_of(listener: socket.socket) -> str:
    """Where a browser on this machine finds the page."""
    host, port = listener.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


def make_server(service: Service) -> Server:
    """A server that can be run; setting its `should_exit` stops it."""
    settings = uvicorn.Config(
        make_app(service),
        log_config=None,
        access_log=False,  # addresses may hold what should not be in a log
        server_header=False,
        ws="none",
        timeout_graceful_shutdown=GRACE,
        proxy_headers=False,
        http=Connection,
        h11_max_incomplete_event_size=LARGEST_HEAD,
        limit_concurrency=2 * service.config.viewers + OTHERS,
    )
    return Server(service, settings)


def serve(service: Service, listener: socket.socket) -> None:
    """Serve until a signal ends it, such as SIGTERM or Ctrl-C; files are closed when this returns."""
    set_up_log(service.config)
    server = make_server(service)

    def stop(*_: object) -> None:
        server.should_exit = True

    # uvicorn hears SIGTERM and Ctrl-C itself while it serves, and raises them again when it is done.
    with handle_ending(stop):
        server.run([listener])


class LogFormatter(logging.Formatter):
    """Log lines without credentials, tracebacks included."""

    def __init__(self, config: ServeConfig) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s", "%H:%M:%S")
        self._config = config

    def format(self, record: logging.LogRecord) -> str:
        return self._config.hide_credentials(super().format(record))


def set_up_log(config: ServeConfig) -> None:
    """Warnings and errors of the server on standard error, once."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LogFormatter(config))
    for name, level in (("stmg.serve", logging.INFO), ("uvicorn", logging.WARNING)):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level)
