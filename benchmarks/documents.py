"""Documents: write their tables and figures from the results, and find numbers that come from no result."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks.figures import FIGURE, write_figures
from benchmarks.history import ROOT
from benchmarks.run import RESULTS
from benchmarks.runs import RUNS
from benchmarks.tables import minutes, page_tables, program_table, run_list, summary
from reliability.report import put_between

BEGIN, END = "<!-- table: {} -->", "<!-- end -->"
DOCUMENTS = (
    ROOT / "README.md",
    ROOT / "BENCHMARKS.md",
    RESULTS / "README.md",
    *sorted((ROOT / "benchmarks" / "pages").glob("*.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
)
NUMBER = re.compile(r"(?<![\w.,])[+−-]?\d[\d.,]*(?: ?(?:×|%|x\b|ms\b|FPS\b|mIoU\b|GMACs\b)|(?<=\d\d\.\d\d)(?![\d%]))")
"""A number that looks measured: with a unit, or with two digits on both sides of the point, like an mIoU."""
HIDDEN = re.compile(
    r"<!-- table: .*?<!-- end -->|^```.*?^```|`[^`]*`|<!--.*?-->|\]\([^)]*\)|\$[^$\n]*\$", re.MULTILINE | re.DOTALL
)


def fill(page: str, folder: Path = RESULTS, beside: Path = RESULTS) -> str:
    """Fill the tables and figures of a document from the results.

    beside: the folder of the document, for links to results.
    """
    results = os.path.relpath(RESULTS, beside)
    tables: dict[str, Callable[[], str | None]] = {
        "summary": partial(summary, folder),
        "minutes": minutes,
        "runs": run_list,
        **{run.name: partial(program_table, run, results, folder) for run in RUNS if run.program},
    }
    for name in re.findall(BEGIN.format("([^ ]+)"), page):
        text = (tables.get(name) or partial(page_tables, name, folder))()
        text = text or _old_table(page, name)
        page = put_between(page, BEGIN.format(name), END, f"\n{text}\n")
    return write_figures(page)


def _old_table(page: str, name: str) -> str:
    """The table that the page shows for a program without a result, with a note that says so."""
    (run,) = (run for run in RUNS if run.name == name)
    body = page.partition(BEGIN.format(name))[2].partition(END)[0]
    table = "\n".join(line for line in body.splitlines() if line.startswith("|"))
    note = f"`{run.command_line}` (the result was not kept; `make benchmarks ONLY={name}` measures it again)"
    return "\n\n".join(filter(None, (note, table)))


def write_documents() -> list[Path]:
    """Rewrite every document; returns those that changed."""
    changed = []
    for path in DOCUMENTS:
        before = path.read_text(encoding="utf-8")
        after = fill(before, beside=path.parent)
        if after != before:
            path.write_text(after, encoding="utf-8")
            changed.append(path)
    return changed


def unexplained_numbers(page: str) -> list[str]:
    """Numbers, with words around, that look measured but are neither a figure nor in a generated table.

    Code, links and the columns of a table that quote the paper do not count.
    """
    page = FIGURE.sub(lambda match: "#" * len(match[0]), page)
    page = HIDDEN.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), _without_quotes(page))
    return [re.sub(r"\s+", " ", page[max(0, at.start() - 25) : at.end() + 10]).strip() for at in NUMBER.finditer(page)]


def _without_quotes(page: str) -> str:
    """Remove the columns of tables whose heading begins with "paper"."""
    lines, quoted = [], set[int]()
    for line in page.split("\n"):
        cells = line.split("|")
        if not line.startswith("|"):
            quoted = set()
        elif not quoted:
            quoted = {at for at, cell in enumerate(cells) if cell.strip().startswith("paper")}
        lines.append("|".join("" if at in quoted else cell for at, cell in enumerate(cells)))
    return "\n".join(lines)
