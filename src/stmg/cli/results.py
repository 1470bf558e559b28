"""Results on the screen and on disk, for all commands that measure."""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape

from stmg.cli.interruption import INTERRUPTED

if TYPE_CHECKING:
    from stmg.evaluation.results import Result


AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON, and everything else to stderr.")]


def publish(result: Result, out: Path, console: Console, as_json: bool = False) -> int:
    """Print a result's tables, and write it to a folder with its command. Return the exit code.

    as_json: also print the result to standard output, in the format of its file.
    """
    from stmg.evaluation.storage import to_json, write_result
    from stmg.evaluation.tables import result_tables
    from stmg.video.addresses import hide_credentials

    typed = shlex.join(["stmg", *map(hide_credentials, sys.argv[1:])])
    result = replace(result, command=typed)
    write_result(result, out)
    for table in result_tables(result):
        console.print(table.rich())
    folder = escape(str(out))
    console.print(f"written to [bold]{folder}[/]; for a page of it: stmg report {folder}", soft_wrap=True)
    if as_json:
        print(to_json(result), end="")
    return INTERRUPTED if result.interrupted else 0
