"""Progress: how far a job is, what it says of itself, and how long it still takes."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

INTERRUPTED = 130  # exit code after Ctrl-C


def progress_bar(console: Console) -> Progress:
    """A bar for tasks made with `add_task(..., told="")`; `told` is a line of current figures."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:.0f}/{task.total}"),
        TextColumn("{task.fields[told]}"),
        TimeRemainingColumn(),
        console=console,
    )
