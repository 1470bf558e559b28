"""Results on the screen and on disk, as the verbs that measure leave them."""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape

from stmg.cli.progress import INTERRUPTED

if TYPE_CHECKING:
    from stmg.evaluation.results import Result


def publish(result: Result, out: Path, console: Console) -> int:
    """Print a result's tables, write it to a folder with the command it came from; the exit code."""
    from stmg.evaluation.inputs import hide_credentials
    from stmg.evaluation.storage import write_result
    from stmg.evaluation.tables import result_tables

    typed = shlex.join(["stmg", *sys.argv[1:]])
    result = replace(result, command=hide_credentials(typed))
    write_result(result, out)
    for table in result_tables(result):
        console.print(table.rich())
    folder = escape(str(out))
    console.print(f"written to [bold]{folder}[/]; for a page of it: stmg report {folder}", soft_wrap=True)
    return INTERRUPTED if result.interrupted else 0
