"""stmg report: one page from the results of other commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape


def report(
    runs: Annotated[
        list[Path],
        typer.Argument(
            help="Folders that evaluate, benchmark, ablate or tune wrote, or their JSON files.", show_default=False
        ),
    ],
    out: Annotated[
        Path,
        typer.Option("--out", "-o", metavar="FILE", help="The page; .html is added if the name does not end in it."),
    ] = Path("out/report.html"),
) -> None:
    """Put results together on one HTML page, with their pictures; and the tables alone beside it, as Markdown."""
    from stmg.evaluation.report import render_html, render_markdown
    from stmg.evaluation.storage import read_results
    from stmg.files import write_atomically

    results = read_results(runs)
    page = out if out.suffix in (".html", ".htm") else out.with_name(f"{out.name}.html")
    page.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(page, render_html(results).encode())
    write_atomically(page.with_name(f"{page.stem}-tables.md"), render_markdown(results).encode())
    text = f"[bold]{escape(str(page))}[/]: {len(results)} result{'s' * (len(results) != 1)}"
    Console().print(text, soft_wrap=True)
