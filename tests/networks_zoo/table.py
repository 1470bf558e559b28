"""All rows, and the table of `docs/networks.md` that is written from them by `make networks`."""

from __future__ import annotations

from documents import ROOT
from networks_zoo import functions, graph_files, hub, libraries, modules, yolo

ROWS = (*hub.ROWS, *libraries.ROWS, *modules.ROWS, *graph_files.ROWS, *yolo.ROWS, *functions.ROWS)
PAGE = ROOT / "docs" / "networks.md"
BEGIN, END = "<!-- networks: written by make networks -->\n", "<!-- networks: end -->"


def make_table() -> str:
    lines = ["| network | family | how to load it | what is understood |", "|---|---|---|---|"]
    for row in ROWS:
        family = f"{row.family}, where {' and '.join(row.needs)} is installed" if row.needs else row.family
        lines.append(f"| {row.name} | {family} | `{row.load}` | {', '.join(row.understood)} |")
    return "\n".join(lines) + "\n"


def fill_page(text: str) -> str:
    """The text of the page with the table as it is now."""
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n{make_table()}\n{END}{rest.split(END)[1]}"


if __name__ == "__main__":
    PAGE.write_text(fill_page(PAGE.read_text()))
