"""Safety: check host, origin and token of a request before anything else."""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import json
import secrets
import time
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, MutableMapping
from http.cookies import CookieError, SimpleCookie
from typing import Any

from starlette.responses import Response

from stmg.serve.config import ServeConfig, is_loopback

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

READING = ("GET", "HEAD")
METHODS = (*READING, "POST", "PATCH", "DELETE")
LARGEST_BODY = 65536  # maximum bytes of a request, except uploads
BODY_SECONDS = 10.0  # maximum time to receive a body
UPLOADS = "/api/uploads"
SESSION = "/api/session"
MAX_SESSIONS = 100  # the oldest is dropped first
MAX_GUESSES, GUESS_SECONDS = 10, 60.0  # wrong tokens that one address may send in this time
MAX_ADDRESSES = 1000  # number of addresses whose wrong tokens are counted
OPEN_PATHS = ("/", "/healthz", "/readyz", SESSION)  # paths without a token, besides the files of the page
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; media-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = [
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), microphone=(), geolocation=()"),
]


class Reply(Response):
    """JSON in plain ASCII, so that any text a client sends can be encoded."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return json.dumps(content, allow_nan=False).encode()


class RefusedError(Exception):
    """A refused request, with status and reason."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status, self.reason = status, reason


class Guard:
    """Checks the token, and the sessions of clients that have sent it."""

    def __init__(self, config: ServeConfig) -> None:
        self._token = config.token
        self.cookie = f"stmg-session-{config.port}"  # browsers send cookies to every port of a host
        self._public = not is_loopback(config.host)
        self._hosts = {"localhost", *(host.lower() for host in config.hosts)}
        if not _is_address(config.host):
            self._hosts.add(config.host.lower())
        self._sessions: deque[str] = deque(maxlen=MAX_SESSIONS)
        self._wrong: OrderedDict[str, deque[float]] = OrderedDict()

    def check(self, method: str, path: str, headers: dict[str, str], address: str) -> None:
        """Raise for a wrong method, a wrong host, another site, or a missing token."""
        if method not in METHODS:
            raise RefusedError(405, f"{', '.join(METHODS)} are answered here")
        host = headers.get("host", "")
        self._check_host(host)
        by_header = self._has_token(headers, address)
        origin, site = headers.get("origin"), headers.get("sec-fetch-site")
        same_origin = origin is not None and origin.lower() in (f"http://{host.lower()}", f"https://{host.lower()}")
        if origin is not None and not same_origin and not by_header:
            raise RefusedError(403, "requests from other sites are refused")
        if site == "cross-site" and path != "/":
            raise RefusedError(403, "requests from other sites are refused")
        if method not in READING and not (by_header or same_origin):
            raise RefusedError(
                403,
                "a change needs the token (Authorization: Bearer TOKEN) or the page's own origin "
                f"(Origin: http://{host})",
            )
        is_open = self._token is None or path in OPEN_PATHS or path.startswith("/page/")
        if not (is_open or by_header or self._has_session(headers)):
            raise RefusedError(401, "the token is missing or wrong; send Authorization: Bearer TOKEN")

    def open_session(self, token: str, address: str) -> str:
        """Open a session for a client that sends the token. Return the value of its cookie."""
        if self._token is None:
            raise RefusedError(400, "this server has no token; nothing to log in to")
        if not self._is_token(token, address):
            raise RefusedError(401, "the token is wrong")
        session = secrets.token_urlsafe(32)
        self._sessions.append(session)
        return session

    def _check_host(self, host: str) -> None:
        name = host.rpartition(":")[0] if ":" in host and not host.endswith("]") else host
        name = name.lower()
        allowed = name in self._hosts or (_is_address(name) and (self._public or is_loopback(name)))
        if not allowed:
            raise RefusedError(421, "this server does not go by that name; add it to hosts in its configuration")

    def _has_token(self, headers: dict[str, str], address: str) -> bool:
        scheme, _, token = headers.get("authorization", "").partition(" ")
        return self._token is not None and scheme.lower() == "bearer" and self._is_token(token.strip(), address)

    def _is_token(self, token: str, address: str) -> bool:
        """Check a token. An address that keeps guessing is blocked for a while."""
        assert self._token is not None
        wrong = self._wrong.get(address, deque[float]())
        if len(wrong) >= MAX_GUESSES and time.monotonic() - wrong[0] < GUESS_SECONDS:
            raise RefusedError(429, "too many wrong tokens; wait a minute")
        if _equal(token, self._token):
            return True
        self._wrong[address] = deque((*wrong, time.monotonic()), maxlen=MAX_GUESSES)
        self._wrong.move_to_end(address)
        if len(self._wrong) > MAX_ADDRESSES:
            self._wrong.popitem(last=False)
        return False

    def _has_session(self, headers: dict[str, str]) -> bool:
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(self.cookie)
        except CookieError:
            return False
        return cookie is not None and any(_equal(cookie.value, session) for session in self._sessions)


class SafetyMiddleware:
    """Calls the guard first, limits the body, and sets headers that isolate the page from other sites."""

    def __init__(self, app: App, guard: Guard) -> None:
        self._app, self._guard = app, guard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008})
                return
            await self._app(scope, receive, send)
            return
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        begun = False

        async def send_safely(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                names = {name.lower() for name, _ in message.get("headers", [])}
                message["headers"] = [*message.get("headers", []), *HEADERS]
                if b"cache-control" not in names:
                    message["headers"].append((b"cache-control", b"no-store"))
            await send(message)

        try:
            self._guard.check(scope["method"], scope["path"], headers, address_of(scope))
            bounded = receive
            if not (scope["method"] == "POST" and scope["path"] == UPLOADS):
                bounded = _bound_body(receive, headers)
            await self._app(scope, bounded, send_safely)
        except RefusedError as refused:
            if begun:
                raise
            await _refuse(refused, scope, receive, send_safely)


def address_of(scope: Scope) -> str:
    """The IP address of the client."""
    client = scope.get("client")
    return "" if client is None else str(client[0])


def _bound_body(receive: Receive, headers: dict[str, str]) -> Receive:
    """Limit the size of a request, and the time to receive it."""
    length = headers.get("content-length", "0")
    too_large = RefusedError(413, f"a request has at most {LARGEST_BODY} bytes")
    if not length.isdecimal() or int(length[:12]) > LARGEST_BODY:
        raise too_large
    received, end = 0, asyncio.get_running_loop().time() + BODY_SECONDS
    complete = False  # after the body, only a disconnect follows, at any time

    async def bounded() -> Message:
        nonlocal received, complete
        try:
            async with asyncio.timeout_at(None if complete else end):
                message = await receive()
        except TimeoutError:
            raise RefusedError(408, "the rest of the request did not come") from None
        received += len(message.get("body", b""))
        complete = not message.get("more_body", False)
        if received > LARGEST_BODY:
            raise too_large
        return message

    return bounded


async def _refuse(refused: RefusedError, scope: Scope, receive: Receive, send: Send) -> None:
    headers = {"www-authenticate": "Bearer"} if refused.status == 401 else None
    await Reply({"error": refused.reason}, refused.status, headers)(scope, receive, send)


def _equal(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode("utf-8", "replace"), other.encode("utf-8", "replace"))


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True
