"""Silence: the logs of tools that say much and mean little."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_warnings_logged() -> Iterator[None]:
    """Within it nothing below an error is logged; what the caller had disabled stays so, within it and after."""
    before = logging.root.manager.disable
    logging.disable(max(before, logging.WARNING))
    try:
        yield
    finally:
        logging.disable(before)
