"""No test of a source may leave a thread behind."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator

import pytest

from clips import decoding_threads


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    yield
    gc.collect()
    deadline = time.monotonic() + 5
    while decoding_threads() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert decoding_threads() == []
