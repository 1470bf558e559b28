"""Channels: encode parts once and send them to many viewers. A slow viewer misses parts; no one waits for another."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

from starlette.responses import Response

from stmg.serve.safety import Receive, RefusedError, Scope, Send

if TYPE_CHECKING:
    from stmg.serve.service import Service

PATIENCE = 20.0  # seconds that a viewer may take for one part before it is disconnected


class Channel:
    """The newest parts of a stream of bytes, numbered from 1. All methods but `post` belong to the event loop.

    depth: number of parts kept for late viewers. 1 for pictures, of which only the newest matters.
    """

    def __init__(self, depth: int = 1) -> None:
        self.viewers: set[Viewer] = set()
        self.lock = threading.Lock()
        """Guards `viewers` against threads that check for viewers."""
        self.version = 0
        self._parts: deque[bytes] = deque(maxlen=depth)

    def publish(self, part: bytes) -> None:
        """Send a part to all viewers."""
        self.version += 1
        self._parts.append(part)
        for viewer in self.viewers:
            viewer.changed.set()

    def post(self, loop: asyncio.AbstractEventLoop, part: bytes) -> None:
        """Publish from a thread; ignored once the server has stopped."""
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(self.publish, part)

    def after(self, version: int) -> tuple[int, bytes] | None:
        """The oldest kept part that is newer than a version, with its number; None if there is none."""
        first = self.version - len(self._parts) + 1
        if not self._parts or version >= self.version:
            return None
        number = max(first, version + 1)
        return number, self._parts[number - first]

    def clear(self) -> None:
        """Remove all parts, so that the next viewer sees no old ones."""
        self._parts.clear()


class Viewer:
    """Follows some channels, and returns their parts in turn.

    fresh: begin with the parts that are already there.
    """

    def __init__(self, channels: Iterable[Channel], *, fresh: bool = True) -> None:
        self.changed = asyncio.Event()
        self._channels = list(channels)
        self._seen = {id(channel): 0 if fresh else channel.version for channel in self._channels}
        self._closed = False
        for channel in self._channels:
            with channel.lock:
                channel.viewers.add(self)

    def close(self) -> None:
        """Stop following; safe to call twice."""
        self._closed = True
        self.changed.set()
        for channel in self._channels:
            with channel.lock:
                channel.viewers.discard(self)
                if not channel.viewers:
                    channel.clear()

    async def next(self) -> bytes | None:
        """Wait for the next part; None after `close`."""
        while not self._closed:
            for position, channel in enumerate(self._channels):
                found = channel.after(self._seen[id(channel)])
                if found is not None:
                    self._seen[id(channel)] = found[0]
                    self._channels.append(self._channels.pop(position))  # give the other channels the next turn
                    return found[1]
            self.changed.clear()
            await self.changed.wait()
        return None


class LiveReply(Response):
    """A response that lasts until its viewer leaves, takes too long, or is closed.

    first: sent before the parts of the viewer.
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
            pass  # the client does not read; close the connection
        finally:
            leaving.cancel()
            self._viewer.close()
            self._service.viewers -= 1

    async def _wait_until_gone(self, receive: Receive) -> None:
        with suppress(RefusedError):  # the client sends more than a request: disconnect it as well
            while (await receive())["type"] != "http.disconnect":
                pass
        self._viewer.close()
