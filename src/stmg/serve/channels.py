"""Channels: what is made once and sent to many. Whoever is slow misses parts; nobody waits for anybody."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Iterable
from contextlib import suppress


class Channel:
    """The newest parts of something, numbered from 1. All but `post` belongs to the event loop.

    depth: parts that are kept for viewers who are late; 1 for pictures, of which only the newest matters.
    """

    def __init__(self, depth: int = 1) -> None:
        self.viewers: set[Viewer] = set()
        self.lock = threading.Lock()
        """Guards `viewers` against threads that ask whether anybody looks."""
        self.version = 0
        self._parts: deque[bytes] = deque(maxlen=depth)

    def publish(self, part: bytes) -> None:
        """Hand a part to everyone who looks."""
        self.version += 1
        self._parts.append(part)
        for viewer in self.viewers:
            viewer.changed.set()

    def post(self, loop: asyncio.AbstractEventLoop, part: bytes) -> None:
        """Publish from a thread; nothing happens where the server has stopped."""
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(self.publish, part)

    def after(self, version: int) -> tuple[int, bytes] | None:
        """The oldest part that is newer than a version and still kept."""
        first = self.version - len(self._parts) + 1
        if not self._parts or version >= self.version:
            return None
        number = max(first, version + 1)
        return number, self._parts[number - first]

    def clear(self) -> None:
        """Forget what was sent: the next viewer should see what is, not what was."""
        self._parts.clear()


class Viewer:
    """Someone who looks at some channels; as an iterator, their parts in turn.

    fresh: whether to begin with what there is already.
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
        """Look no more; may be called twice."""
        self._closed = True
        self.changed.set()
        for channel in self._channels:
            with channel.lock:
                channel.viewers.discard(self)
                if not channel.viewers:
                    channel.clear()

    async def next(self) -> bytes | None:
        """The next part, as soon as there is one; None after `close`."""
        while not self._closed:
            for position, channel in enumerate(self._channels):
                found = channel.after(self._seen[id(channel)])
                if found is not None:
                    self._seen[id(channel)] = found[0]
                    self._channels.append(self._channels.pop(position))  # the others come first the next time
                    return found[1]
            self.changed.clear()
            await self.changed.wait()
        return None
