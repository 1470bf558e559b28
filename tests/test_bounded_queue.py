"""A bounded queue keeps its order, blocks or drops when full, and ends once."""

from __future__ import annotations

import threading

import pytest

from stmg.bounded_queue import BoundedQueue
from waiting import PATIENCE


def drain(queue):
    return list(iter(queue.get, None))


def test_a_full_queue_blocks_the_producer_until_an_item_is_taken():
    queue = BoundedQueue[int](2)
    producer = threading.Thread(target=lambda: [queue.put(number) for number in range(3)])
    producer.start()
    producer.join(0.1)
    assert producer.is_alive()
    assert queue.get() == 0
    producer.join(PATIENCE)
    assert not producer.is_alive()
    queue.finish()
    assert drain(queue) == [1, 2]


def test_a_full_queue_that_may_drop_loses_its_oldest_item():
    dropped = []
    queue = BoundedQueue[int](2, dropped.append)
    for number in range(5):
        queue.put(number)
    queue.finish()
    assert (dropped, drain(queue)) == ([0, 1, 2], [3, 4])


def test_an_error_comes_once_after_the_last_item():
    queue = BoundedQueue[int](2)
    queue.put(0)
    queue.finish(OSError("gone"))
    queue.put(1)
    assert queue.get() == 0
    with pytest.raises(OSError, match="gone"):
        queue.get()
    assert queue.get() is None


def test_discarding_frees_a_producer_that_waits():
    queue = BoundedQueue[int](1)
    queue.put(0)
    producer = threading.Thread(target=queue.put, args=(1,))
    producer.start()
    queue.finish(discard=True)
    producer.join(PATIENCE)
    assert not producer.is_alive()
    assert queue.get() is None
