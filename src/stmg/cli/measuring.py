"""Options of the verbs that measure several modes at once. Imports nothing heavy: `stmg --help` reads it."""

from __future__ import annotations

from stmg.errors import SettingsError


def parse_intervals(text: str | None) -> list[int] | None:
    """Numbers of frame intervals from text such as 1,2,4."""
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise SettingsError(f"--network-intervals are whole numbers from 1, such as 1,2,4; got {text!r}")
    return [int(part) for part in parts]
