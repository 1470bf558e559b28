"""Measurements of the programs in this folder: rows of numbers, stored as JSON and shown as a table."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console

from stmg.evaluation.machine import Machine, this_machine
from stmg.evaluation.text_table import NOTHING, TextTable
from stmg.files import build_dataclass, write_atomically

OUT = Path("out/benchmarks")
Numbers = Mapping[str, float | None]
"""A row: numbers by name; None where there is none."""


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """Rows of numbers and how to show them."""

    command: str
    machine: Machine
    title: str
    columns: dict[str, tuple[str, str]]
    """Heading and format, such as `{:.1f} ms`, of each column, by the name of its number in the rows."""
    rows: dict[str, Numbers]
    note: str = ""
    data: dict[str, Any] = field(default_factory=dict)
    """Anything else, such as the points of a plot."""

    def table(self) -> TextTable:
        columns = {
            key: column
            for key, column in self.columns.items()
            if any(row.get(key) is not None for row in self.rows.values())
        }
        headings = ("", *(heading for heading, _ in columns.values()))
        table = TextTable(self.title, headings, note="; ".join(filter(None, (str(self.machine), self.note))))
        for name, row in self.rows.items():
            table.add(name, *(_cell(row.get(key), form) for key, (_, form) in columns.items()))
        return table


def read_measurement(path: Path) -> Measurement:
    content = json.loads(path.read_text(encoding="utf-8"))
    columns = {key: (heading, form) for key, (heading, form) in content.pop("columns").items()}
    return Measurement(**{**content, "columns": columns, "machine": build_dataclass(Machine, content["machine"])})


def write_measurement(measurement: Measurement, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, (json.dumps(asdict(measurement), indent=1, allow_nan=False) + "\n").encode())


def make_parser(program: str, description: str | None) -> argparse.ArgumentParser:
    """A parser for a program of this folder, with the option `--out`."""
    parser = argparse.ArgumentParser(
        prog=f"python -m benchmarks.{program}",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--out", type=Path, default=OUT / f"{program}.json", help="the result, as JSON")
    return parser


def typed_command(program: str, arguments: list[str]) -> str:
    """The command that repeats a measurement, without `--out`."""
    words = list(arguments)
    if "--out" in words:
        at = words.index("--out")
        del words[at : at + 2]
    return shlex.join(["python", "-m", f"benchmarks.{program}", *words])


def finish(
    program: str,
    path: Path,
    title: str,
    columns: dict[str, tuple[str, str]],
    rows: Mapping[str, Numbers],
    *,
    note: str = "",
    data: dict[str, Any] | None = None,
) -> None:
    """Print a measurement and write it to a file."""
    measurement = Measurement(
        command=typed_command(program, sys.argv[1:]),
        machine=this_machine(),
        title=title,
        columns=columns,
        rows=dict(rows),
        note=note,
        data=data or {},
    )
    write_measurement(measurement, path)
    Console(width=110).print(measurement.table().rich())
    print(f"written to {path}")


def _cell(value: float | None, form: str) -> str:
    return NOTHING if value is None else form.format(value)
