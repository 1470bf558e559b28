"""Answers that go on: pictures and events, sent to each viewer as fast as it takes them."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from starlette.responses import Response

from stmg.serve.channels import Viewer
from stmg.serve.pictures import BOUNDARY
from stmg.serve.safety import Receive, Scope, Send
from stmg.serve.service import Service

PATIENCE = 20.0  # seconds that a viewer may take for one part before it is let go
PICTURES = f"multipart/x-mixed-replace; boundary={BOUNDARY.decode()}"
EVENTS = "text/event-stream"


class Reply(Response):
    """JSON in plain ASCII, so that no text a client may send can fail to be encoded."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return json.dumps(content, allow_nan=False).encode()


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
        while (await receive())["type"] != "http.disconnect":
            pass
        self._viewer.close()
