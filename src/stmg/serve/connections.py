"""Connections: closed when no request comes on them in time, or when whoever was there has vanished without a word."""

from __future__ import annotations

import asyncio
import socket

from uvicorn.protocols.http.h11_impl import H11Protocol

REQUEST_SECONDS = 10.0  # from when a connection is made, or an answer is complete, to a request with all of its headers
SILENT_SECONDS = 15  # of silence after which the system probes whether the other side is still there
PROBE_SECONDS, PROBES = 5, 3  # between two probes, and how many may stay unanswered


class Connection(H11Protocol):
    """uvicorn's HTTP/1.1, which by itself waits for ever for a request that has begun, or never begins."""

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
        if self.cycle is None or self.cycle.response_complete:  # else a request is being answered
            self.transport.close()


def _notice_vanished(connection: socket.socket) -> None:
    """Have the system close a connection whose other side no longer answers, soon where the time can be set."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", SILENT_SECONDS),
        ("TCP_KEEPALIVE", SILENT_SECONDS),  # what macOS calls it
        ("TCP_KEEPINTVL", PROBE_SECONDS),
        ("TCP_KEEPCNT", PROBES),
        # While something is being sent there are no probes: then it is what stays unacknowledged.
        ("TCP_USER_TIMEOUT", 1000 * (SILENT_SECONDS + PROBES * PROBE_SECONDS)),
    ):
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
