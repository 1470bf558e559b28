"""Results: figures as JSON with the command and the machine they come from, tables on the screen, pictures beside."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from stmg.evaluation.report import KINDS, pictures
from stmg.machine import machine, machine_line
from stmg.sinks import replace_file


def leave(
    kind: str,
    told: dict[str, Any],
    out: Path,
    console: Console,
    kept: dict[str, tuple[bytes, str]] | None = None,
) -> None:
    """Print the tables of a result, and write it to `out` with its pictures; `kept` are those only it can draw."""
    facts = machine()
    told = {
        "kind": kind,
        "command": command(),
        "machine": facts,
        "machine_line": machine_line(facts),
        **told,
        "pictures": {name: caption for name, (_, caption) in (kept or {}).items()},
    }
    out.mkdir(parents=True, exist_ok=True)
    replace_file(out / f"{kind}.json", (json.dumps(told, indent=1, allow_nan=False) + "\n").encode())
    for name, (data, _) in (kept or {}).items():
        replace_file(out / name, data)
    drawn = pictures(kind, {**told, "pictures": {}}, out)
    for number, (data, _) in enumerate(drawn, 1):
        replace_file(out / f"{kind}-{number}.png", data)
    for sheet in KINDS[kind](told):
        console.print(sheet.rich())
    console.print(f"written to [bold]{escape(str(out))}[/]; stmg report {escape(str(out))} makes a page of it")


def command() -> str:
    """What was typed, without the folder that the program lies in."""
    return unsigned(shlex.join(["stmg", *sys.argv[1:]]))


def unsigned(text: str) -> str:
    """Without user names and passwords of URLs: results are meant to be shown."""
    return re.sub(r"//[^/@\s]*@", "//", text)
