"""Options that are more than a word or a number, read from text. Imports nothing heavy: `stmg --help` reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stmg.errors import SettingsError

if TYPE_CHECKING:
    from stmg.streaming.schedulers import Scheduler


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


def parse_size(text: str | None) -> tuple[int, int] | None:
    """(height, width) from text such as 360x480."""
    if text is None:
        return None
    parts = text.lower().split("x")
    if len(parts) != 2 or not all(part.isdecimal() and len(part) < 9 and int(part) > 0 for part in parts):
        raise SettingsError(f"a size is HEIGHTxWIDTH, such as 360x480; got {text!r}")
    from stmg.video.frames import check_size

    size = int(parts[0]), int(parts[1])
    check_size(size, "a size")
    return size


def parse_scheduler(text: str | None) -> Scheduler | None:
    """A scheduler from its name, or from name and settings: `fixed:period=3,between=carry`."""
    if text is None:
        return None
    from stmg.streaming.schedulers import make_scheduler

    name, _, rest = text.partition(":")
    options: dict[str, float | int | str] = {}
    for item in filter(None, rest.split(",")):
        key, _, value = item.partition("=")
        options[key] = _parse_value(key, value, text)
    return make_scheduler(name, **options)


def _parse_value(key: str, value: str, text: str) -> int | float | str:
    if key == "between":  # the one setting that is a name
        return value
    for convert in (int, float):
        try:
            return convert(value)
        except ValueError:
            continue
    raise SettingsError(f"--scheduler {text}: {key or 'a setting'} takes a number, as in {key or 'period'}=3")
