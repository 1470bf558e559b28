"""Options that are more than a word or a number, read from text. Imports nothing heavy: `stmg --help` reads it."""

from __future__ import annotations

from stmg.errors import SettingsError


def parse_share(option: str, text: str | None) -> float | None:
    """A share of 1 from text such as 2% or 0.02."""
    if text is None:
        return None
    try:
        share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        share = -1.0
    if not 0 < share < 1:
        raise SettingsError(f"{option} is a share such as 2% or 0.02; got {text!r}")
    return share
