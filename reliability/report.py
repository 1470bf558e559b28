"""Reports: what each program checked, as JSON, and the tables of RELIABILITY.md that are made from it.

python -m reliability.report    # writes the tables of the last full runs into RELIABILITY.md
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
REPORTS = ROOT / "reliability" / "reports"
"""The reports of the last full runs."""
OUT = ROOT / "out" / "reliability"
PAGE = ROOT / "RELIABILITY.md"
BEGIN, END = "<!-- report of {} -->", "<!-- end of {} -->"
PROGRAMS = ("fuzz", "soak", "faults")
LINE_EVERY = 5.0  # seconds between lines of progress


@dataclass(frozen=True)
class Check:
    """A statement that has to hold, and what was measured."""

    name: str
    measured: str
    holds: bool


@dataclass(frozen=True)
class Report:
    """Checks of a program, and the machine they ran on."""

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
        """The report as a Markdown table."""
        lines = [f"`{self.command}`, {self.date}, {self.machine}, {self.seconds / 60:.0f} min", ""]
        lines += ["| what | measured | holds |", "|---|---|---|"]
        lines += [
            f"| {check.name} | {check.measured} | {'yes' if check.holds else '**no**'} |" for check in self.checks
        ]
        return "\n".join(lines)


def finish(program: str, checks: Sequence[Check], begun: float, *, full: bool) -> int:
    """Print the report of a program and write it as JSON; return the exit code.

    full: the run was long enough for RELIABILITY.md to show it.
    """
    from stmg.evaluation.machine import this_machine

    command = f"python -m reliability.{' '.join([program, *sys.argv[1:]])}"
    seconds = time.monotonic() - begun
    machine = str(this_machine()).partition(", stmg")[0]
    report = Report(program, command, date.today().isoformat(), machine, seconds, tuple(checks))
    folder = REPORTS if full else OUT
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{program}.json"
    path.write_text(json.dumps(asdict(report), indent=1) + "\n")
    print(f"\n{report.table()}\n\nwritten to {path}")
    return 0 if report.holds else 1


def read_report(program: str, folder: Path = REPORTS) -> Report | None:
    """The report of the last full run of a program; None if there was none."""
    path = folder / f"{program}.json"
    if not path.is_file():
        return None
    content = json.loads(path.read_text())
    return Report(**{**content, "checks": tuple(Check(**check) for check in content["checks"])})


def fill(page: str, folder: Path = REPORTS) -> str:
    """Put the tables of the last full runs between the marks of a page."""
    for program in PROGRAMS:
        report = read_report(program, folder)
        table = "No full run yet." if report is None else report.table()
        page = put_between(page, BEGIN.format(program), END.format(program), table)
    return page


def put_between(page: str, begin: str, end: str, text: str) -> str:
    """Replace the text between two marks of a page."""
    before, mark, rest = page.partition(begin)
    _, other_mark, after = rest.partition(end)
    assert mark, f"the page lacks {begin}"
    assert other_mark, f"the page lacks {end}"
    return f"{before}{begin}\n{text}\n{end}{after}"


class Progress:
    """Prints every few seconds how far a run is and how long it will still take."""

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
