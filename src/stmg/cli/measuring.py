"""Options of the verbs that measure several modes at once. Imports nothing heavy: `stmg --help` reads it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from stmg.cli.options import STREAM_PANEL
from stmg.cli.parsing import parse_scheduler
from stmg.errors import SettingsError

if TYPE_CHECKING:
    from stmg.models.resolve import ModelSpec

Offline = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Scheduler of offline mode; --scheduler is that of online mode, unless --mode offline is given. "
        "Default: the model's own; drift:key_above=0.6,longest=12 if it has none.",
        rich_help_panel=STREAM_PANEL,
    ),
]


def add_offline(spec: ModelSpec, offline: str | None, mode: str | None) -> ModelSpec:
    """With the scheduler of offline mode, if one is given."""
    if offline is None:
        return spec
    if mode not in (None, "offline"):
        raise SettingsError(f"--offline is for offline mode; the mode is {mode}")
    return replace(spec, streaming={**spec.streaming, "offline": parse_scheduler(offline)})


def parse_intervals(text: str | None) -> list[int] | None:
    """Numbers of frame intervals from text such as 1,2,4."""
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise SettingsError(f"--network-intervals are whole numbers from 1, such as 1,2,4; got {text!r}")
    return [int(part) for part in parts]
