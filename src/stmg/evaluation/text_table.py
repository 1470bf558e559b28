"""Tables of text, narrow enough for 80 columns, for the screen, Markdown and HTML; and the format of their figures."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from rich import box
from rich.console import Group
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from stmg.evaluation.results import Result
from stmg.evaluation.rows import FrameCost, Row, percent_change, percent_of_macs

NOTHING = "-"
Columns = Mapping[str, Callable[[Row], str]]
"""The text of a cell from its row, by the heading of the column."""
NOT_COUNTED = "not counted"  # MACs of a network whose operations cannot be seen


@dataclass
class TextTable:
    """A titled table of text."""

    title: str
    headings: tuple[str, ...]
    rows: list[tuple[str, ...]] = field(default_factory=list)
    note: str = ""

    def add(self, *cells: str) -> None:
        assert len(cells) == len(self.headings), (cells, self.headings)
        self.rows.append(cells)

    def rich(self) -> Group:
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
        for index, heading in enumerate(self.headings):
            # Names and headings wrap on a narrow terminal; figures never do.
            justify: Literal["left", "right"] = "right" if index else "left"
            width = max(map(len, heading.split() + [row[index] for row in self.rows]), default=0) if index else None
            table.add_column(escape(heading), justify=justify, width=width, overflow="fold", vertical="top")
        for row in self.rows:
            table.add_row(*map(escape, row))
        note = [Text(f"{self.note}\n", style="dim")] if self.note else []
        return Group(Text(self.title, style="bold"), table, *note)

    def markdown(self) -> str:
        lines = [self.headings, ("---",) + ("---:",) * (len(self.headings) - 1), *self.rows]
        body = "\n".join("| " + " | ".join(line) + " |" for line in lines)
        return f"**{self.title}**\n\n{body}\n" + (f"\n{self.note}\n" if self.note else "")

    def html(self) -> str:
        def row(cells: tuple[str, ...], tag: str) -> str:
            return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"

        rows = "\n".join(row(cells, "td") for cells in self.rows)
        note = f"<p class=note>{html.escape(self.note)}</p>" if self.note else ""
        head = row(self.headings, "th")
        return f"<h3>{html.escape(self.title)}</h3><table><thead>{head}</thead><tbody>{rows}</tbody></table>{note}"


def make_table(title: str, rows: Iterable[Row], columns: Columns, *, note: str = "") -> TextTable:
    """A table with a line for each row."""
    table = TextTable(title, tuple(columns), note=note)
    for row in rows:
        table.add(*(cell(row) for cell in columns.values()))
    return table


def number(value: float | None, digits: int = 2, unit: str = "", missing: str = NOTHING) -> str:
    """Format a number; a dash for None."""
    return missing if value is None else f"{value:.{digits}f}{unit}"


def ratio(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.2f}x"


def change(value: float | None, base: float | None, digits: int = 2) -> str:
    """Signed difference of a value from a base, in percent of the base."""
    changed = percent_change(value, base)
    return NOTHING if changed is None else f"{changed:+.{digits}f} %"


def macs_share(cost: FrameCost | None, base: FrameCost | None, digits: int = 1) -> str:
    """MACs of a mean frame in percent of the base network's."""
    return number(percent_of_macs(cost, base), digits, " %", NOT_COUNTED)


def gmacs(row: Row) -> float | None:
    return None if row.cost is None else row.cost.macs / 1e9


def gmacs_without_head(row: Row) -> float | None:
    return None if row.cost is None else row.cost.macs_without_head / 1e9


def million_params(row: Row) -> float | None:
    return None if row.cost is None else row.cost.params / 1e6


def mark_interrupted(result: Result) -> str:
    """The end of the title of a result's first table."""
    return ", interrupted" if result.interrupted else ""
