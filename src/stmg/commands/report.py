"""stmg report: one page from the results of other verbs."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.markup import escape

from stmg.evaluation.report import markdown, page, read_runs
from stmg.sinks import replace_file


def report(folders: list[Path], out: Path, console: Console) -> int:
    """Write the page, and the tables alone as Markdown beside it."""
    runs = read_runs(folders)
    out.parent.mkdir(parents=True, exist_ok=True)
    replace_file(out, page(runs).encode())
    replace_file(out.with_suffix(".md"), markdown(runs).encode())
    console.print(f"[bold]{escape(str(out))}[/] tells of {len(runs)} results")
    return 0
