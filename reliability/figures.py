"""Figures: what the programs measured, as JSON, and the tables of RELIABILITY.md that are made from it.

python -m reliability.figures    # puts the tables of the last full runs into RELIABILITY.md
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path

ROOT = Path(__file__).parents[1]
FIGURES = ROOT / "reliability" / "figures"
"""Of the last full runs."""
OUT = ROOT / "out" / "reliability"
PAGE = ROOT / "RELIABILITY.md"
BEGIN, END = "<!-- figures of {} -->", "<!-- end of {} -->"
PROGRAMS = ("fuzz", "soak", "faults")
LINE_EVERY = 5.0  # seconds between lines of progress


@dataclass(frozen=True)
class Check:
    """Something that has to hold."""

    name: str
    measured: str
    holds: bool


@dataclass(frozen=True)
class Figures:
    """What a program measured."""

    program: str
    command: str
    date: str
    machine: str
    seconds: float
    checks: tuple[Check, ...]

    @property
    def holds(self) -> bool:
        return all(check.holds for check in self.checks)

    def table(self) -> str:
        """As Markdown."""
        lines = [f"`{self.command}`, {self.date}, {self.machine}, {self.seconds / 60:.0f} min", ""]
        lines += ["| what | measured | holds |", "|---|---|---|"]
        lines += [
            f"| {check.name} | {check.measured} | {'yes' if check.holds else '**no**'} |" for check in self.checks
        ]
        return "\n".join(lines)


def finish(program: str, checks: Sequence[Check], begun: float, *, full: bool) -> int:
    """Print what was measured and write it down, where RELIABILITY.md takes it from if the run was full; exit code."""
    from stmg.evaluation.machine import this_machine

    command = f"python -m reliability.{' '.join([program, *sys.argv[1:]])}"
    seconds = time.monotonic() - begun
    machine = str(this_machine()).partition(", stmg")[0]
    figures = Figures(program, command, date.today().isoformat(), machine, seconds, tuple(checks))
    folder = FIGURES if full else OUT
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{program}.json"
    path.write_text(json.dumps(asdict(figures), indent=1) + "\n")
    print(f"\n{figures.table()}\n\nwritten to {path}")
    return 0 if figures.holds else 1


def read_figures(program: str, folder: Path = FIGURES) -> Figures | None:
    """What the last full run of a program measured; None if there was none."""
    path = folder / f"{program}.json"
    if not path.is_file():
        return None
    content = json.loads(path.read_text())
    return Figures(**{**content, "checks": tuple(Check(**check) for check in content["checks"])})


def fill(page: str, folder: Path = FIGURES) -> str:
    """The page with the tables of the last full runs between its marks."""
    for program in PROGRAMS:
        figures = read_figures(program, folder)
        table = "No full run yet." if figures is None else figures.table()
        page = put_between(page, BEGIN.format(program), END.format(program), table)
    return page


def put_between(page: str, begin: str, end: str, text: str) -> str:
    """The page with a text between two marks, in place of what was there."""
    before, mark, rest = page.partition(begin)
    _, other_mark, after = rest.partition(end)
    assert mark, f"the page lacks {begin}"
    assert other_mark, f"the page lacks {end}"
    return f"{before}{begin}\n{text}\n{end}{after}"


class Progress:
    """Lines on how far a run is and how long it will take, every few seconds."""

    def __init__(self, what: str, total: int) -> None:
        self._what, self._total, self._done = what, total, 0
        self._begun = self._printed = time.monotonic()

    def advance(self, status: str = "", done: int = 1) -> None:
        self._done += done
        now = time.monotonic()
        if now - self._printed < LINE_EVERY and self._done < self._total:
            return
        self._printed = now
        left = (now - self._begun) / max(self._done, 1) * (self._total - self._done)
        print(
            f"{self._what} {self._done}/{self._total}, {left / 60:.1f} min left{status and f'; {status}'}", flush=True
        )


if __name__ == "__main__":
    PAGE.write_text(fill(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
