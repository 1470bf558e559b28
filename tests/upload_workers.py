"""Fake workers for uploads. The separate process imports them by name."""

from __future__ import annotations

import time


def hang(work: object, reports: object) -> None:
    """Never come to an end."""
    time.sleep(600)


def hoard(work: object, reports: object) -> None:
    """Take 800 MB of memory and never give it back."""
    memory = b"x" * 800_000_000
    time.sleep(600)
    del memory


def die(work: object, reports: object) -> None:
    """End without a word."""
    raise SystemExit(1)
