"""End a command by Ctrl-C, by a service manager, or when its terminal is lost."""

from __future__ import annotations

import signal
from collections.abc import Callable
from functools import wraps
from typing import Any

import typer
from rich.console import Console

from stmg.signals import ending_as_interrupt

INTERRUPTED = 128 + signal.SIGINT  # exit code after Ctrl-C


def interruptible(command: Callable[..., None]) -> Callable[..., None]:
    """Wrap a command so that any signal to end acts like Ctrl-C. The exit code shows which signal it was."""

    @wraps(command)
    def run(**values: Any) -> None:
        with ending_as_interrupt() as received:
            try:
                command(**values)
                return
            except KeyboardInterrupt:
                Console(stderr=True).print("[yellow]interrupted[/]")
                code = INTERRUPTED
            except typer.Exit as left:
                code = left.exit_code
        raise typer.Exit(128 + received[0] if code == INTERRUPTED and received else code)

    return run
