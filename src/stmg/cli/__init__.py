"""The command line: verbs only, each calls one function."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from stmg import __version__
from stmg.cli import judging, running, training

app = typer.Typer(
    name="stmg",
    help="Faster video segmentation: compute again only what has changed.",
    no_args_is_help=True,
    invoke_without_command=True,
    pretty_exceptions_enable=False,
)
for part in (running, judging, training):
    app.add_typer(part.verbs)


@app.callback()
def options(
    version: Annotated[bool, typer.Option("--version", help="Print the version and leave.")] = False,
) -> None:
    if version:
        print(f"stmg {__version__}")
        raise typer.Exit


def main() -> None:
    """Run the command line; a user's mistake is one line and exit code 2, trouble with the machine exit code 1."""
    try:
        app()
    except (ValueError, TypeError, ImportError, FileNotFoundError) as error:
        _fail(error, 2)
    except (OSError, ArithmeticError, MemoryError, RuntimeError) as error:
        _fail(error, 1)


def _fail(error: Exception, code: int) -> None:
    if os.environ.get("STMG_DEBUG"):
        raise error
    text = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, ModuleNotFoundError) and error.name == "torch":
        text = 'this needs PyTorch: pip install "stmg[torch]"'
    Console(stderr=True).print(f"[bold red]error:[/] {escape(text)}", soft_wrap=True, highlight=False)
    sys.exit(code)
