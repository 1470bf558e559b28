"""Answers that go on: pictures and events, sent to each viewer as fast as it takes them."""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

from starlette.datastructures import Headers
from starlette.responses import FileResponse, Response

from stmg.serve.channels import Viewer
from stmg.serve.pictures import BOUNDARY
from stmg.serve.safety import Receive, RefusedError, Scope, Send
from stmg.serve.service import Service

PATIENCE = 20.0  # seconds that a viewer may take for one part before it is let go
PICTURES = f"multipart/x-mixed-replace; boundary={BOUNDARY.decode()}"
EVENTS = "text/event-stream"
RANGE = re.compile(r"bytes=[ \t]*(?:(\d{1,18})-(\d{0,18})|-(\d{1,18}))[ \t]*")  # one range; several may be ignored


class Reply(Response):
    """JSON in plain ASCII, so that no text a client may send can fail to be encoded."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return json.dumps(content, allow_nan=False).encode()


class FileAnswer(FileResponse):
    """A file, or the range of it that the request names. A range that is none is ignored, one beyond its end is 416."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        requested = headers.get("range")
        if requested is not None:
            size = Path(self.path).stat().st_size
            is_range, is_within = _check_range(requested, size)
            if is_range and not is_within and "if-range" not in headers:
                reply = Reply({"error": f"the file has {size} bytes"}, 416, {"content-range": f"bytes */{size}"})
                await reply(scope, receive, send)
                return
            if not is_within:
                scope = {**scope, "headers": [(name, value) for name, value in headers.raw if name != b"range"]}
        await super().__call__(scope, receive, send)


def _check_range(requested: str, size: int) -> tuple[bool, bool]:
    """Whether a Range header holds one range of bytes, and whether a file of this size has some of it."""
    match = RANGE.fullmatch(requested)
    if match is None:
        return False, False
    first, last, suffix = match.groups()
    if suffix is not None:
        return True, int(suffix) > 0 and size > 0
    if last and int(last) < int(first):
        return False, False
    return True, int(first) < size


class LiveAnswer(Response):
    """An answer that ends when its viewer leaves, takes too long, or is sent away.

    first: what to send before anything else.
    """

    def __init__(self, service: Service, viewer: Viewer, media_type: str, first: bytes = b"") -> None:
        super().__init__(media_type=media_type)
        del self.headers["content-length"]
        self._service, self._viewer, self._first = service, viewer, first
        service.viewers += 1

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        leaving = asyncio.create_task(self._wait_until_gone(receive))
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            part: bytes | None = self._first
            while part is not None:
                async with asyncio.timeout(PATIENCE):
                    await send({"type": "http.response.body", "body": part, "more_body": True})
                part = await self._viewer.next()
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except TimeoutError:
            pass  # it takes nothing; the connection is closed
        finally:
            leaving.cancel()
            self._viewer.close()
            self._service.viewers -= 1

    async def _wait_until_gone(self, receive: Receive) -> None:
        with suppress(RefusedError):  # it sends more than a request has: it may go as well
            while (await receive())["type"] != "http.disconnect":
                pass
        self._viewer.close()
