"""Fixture: no test of a source may leave a thread behind."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from clips import decoding_threads, wait_until_none_decodes


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    yield
    if decoding_threads():  # else there is no source to be collected, which takes a while
        gc.collect()
        wait_until_none_decodes()
