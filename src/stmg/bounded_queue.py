"""A bounded queue from one thread to another, which ends once and may end with an error."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

Item = TypeVar("Item")


class BoundedQueue(Generic[Item]):
    """Items in order. A full queue blocks the producer, or drops its oldest item if `on_drop` is given.

    on_drop: called with each dropped item, in the producer's thread.
    """

    def __init__(self, capacity: int, on_drop: Callable[[Item], object] | None = None) -> None:
        self._capacity, self._on_drop = capacity, on_drop
        self._items: deque[Item] = deque()
        self._changed = threading.Condition()
        self._finished = False
        self._error: Exception | None = None

    def put(self, item: Item) -> None:
        """Add an item. Ignored once the queue is finished."""
        with self._changed:
            if self._on_drop is not None and len(self._items) == self._capacity:
                self._on_drop(self._items.popleft())
            self._changed.wait_for(lambda: self._finished or len(self._items) < self._capacity)
            if not self._finished:
                self._items.append(item)
                self._changed.notify_all()

    def get(self) -> Item | None:
        """Return the next item; None after the last. The error of `finish` is raised once, after the last item."""
        with self._changed:
            self._changed.wait_for(lambda: self._finished or self._items)
            self._changed.notify_all()
            if self._items:
                return self._items.popleft()
            error, self._error = self._error, None
        if error is not None:
            raise error
        return None

    def finish(self, error: Exception | None = None, *, discard: bool = False) -> None:
        """End the queue. Waiting items can still be taken, unless they are discarded."""
        with self._changed:
            self._finished, self._error = True, error
            if discard:
                self._items.clear()
            self._changed.notify_all()
