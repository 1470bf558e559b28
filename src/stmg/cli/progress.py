"""Progress of long commands: a bar on a terminal, occasional lines elsewhere."""

from __future__ import annotations

import time
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

LINE_SECONDS = 10.0  # seconds between lines without a terminal


def progress_bar(console: Console) -> Progress:
    """A progress bar for tasks added with `add_task(..., status="")`. `status` is a short text beside it."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[status]}"),
        TimeRemainingColumn(),
    )
    return Progress(*columns, console=console) if console.is_terminal else ProgressLines(*columns, console=console)


class ProgressLines(Progress):
    """Progress as lines, for pipes and files: after the first step, then every ten seconds, later less often."""

    def __init__(self, *columns: Any, console: Console) -> None:
        super().__init__(*columns, console=console, disable=True)
        self._started: dict[TaskID, tuple[float, float]] = {}
        self._printed: dict[TaskID, float] = {}

    def update(self, task_id: TaskID, **changes: Any) -> None:
        task = next(task for task in self.tasks if task.id == task_id)
        before = task.completed
        super().update(task_id, **changes)
        now = time.monotonic()
        if task.completed < before:  # another task has started
            self._started[task_id] = now, 0
        start, first = self._started.setdefault(task_id, (now, before))
        pause = max(LINE_SECONDS, 0.02 * (now - start))  # fewer lines the longer it takes
        if task.completed <= first or now - self._printed.get(task_id, -pause) < pause:
            return
        self._printed[task_id] = now
        count = f"{task.completed:.0f}" if task.total is None else f"{task.completed:.0f}/{task.total:.0f}"
        left = ""
        if task.total is not None and now - start > 1:
            minutes = (now - start) / (task.completed - first) * (task.total - task.completed) / 60
            left = f", {minutes:.1f} min left"
        parts = (task.description, count, str(task.fields.get("status", "")))
        self.console.print(escape(" ".join(filter(None, parts)) + left), soft_wrap=True, highlight=False)
