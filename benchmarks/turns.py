"""Ways to do one thing, timed in turns, so that all meet the same machine."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any

WARM_UP = 3


def in_turns(ways: dict[str, Callable[[], Any]], repeats: int) -> dict[str, list[float]]:
    """Milliseconds of each way, turn by turn; the first turns do not count."""
    spent: dict[str, list[float]] = {how: [] for how in ways}
    order = deque(ways)
    for turn in range(repeats + WARM_UP):
        order.rotate()  # whoever comes first finds the caches cold
        for how in order:
            started = time.perf_counter()
            ways[how]()
            if turn >= WARM_UP:
                spent[how].append(1000 * (time.perf_counter() - started))
    return spent
