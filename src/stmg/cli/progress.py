"""The progress bar of verbs that take a while, and the exit code of one that was interrupted."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

INTERRUPTED = 130  # exit code after Ctrl-C


def progress_bar(console: Console) -> Progress:
    """A bar for tasks added with `add_task(..., status="")`; `status` is a line of current figures."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[status]}"),
        TimeRemainingColumn(),
        console=console,
    )
