"""A run: a command that writes a result, and where that result is stored."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

from benchmarks.history import MEASURED_CODE, ROOT
from benchmarks.measurement import Measurement, read_measurement
from stmg.errors import DataError
from stmg.evaluation.results import Result
from stmg.evaluation.storage import read_result
from stmg.evaluation.way import Way

CAMVID = "CAMVID"
"""Placeholder for the folder of the dataset in commands; `--data` gives the folder."""
RESULTS = ROOT / "benchmarks" / "results"
PARTS = "parts"
"""Subfolder for measurements of the programs in this folder, which `stmg report` cannot read."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """A command that writes a result: `stmg`, or a program of this folder."""

    name: str
    """Also the name of the result's file."""
    page: str = ""
    """The page that shows the result; programs have a table of their own, by name, on any page."""
    command: tuple[str, ...]
    minutes: float
    """Expected duration on two cores, including exports."""
    program: str = ""
    """A module of this folder; empty for a command of stmg."""
    exports: tuple[tuple[str, ...], ...] = ()
    """Commands of stmg that have to run first."""
    needs: str = ""
    """An input that no command here makes; such a run is started by hand."""
    network: str = ""
    """The network whose rows in the summary this result gives; empty if it does not use the network's own settings."""
    runtime: str = "PyTorch"
    """Runtime of the model itself; exports beside it have their own."""
    rows: tuple[Way, ...] = ()
    """Rows of the summary that this result gives."""

    @property
    def command_line(self) -> str:
        """The command as a reader types it and as the result records it."""
        if self.program:
            return shlex.join(["python", "-m", f"benchmarks.{self.program}", *self.command])
        return shlex.join(["stmg", *self.command, "--out", f"results/{self.name}"])

    @property
    def file(self) -> str:
        """The result's file in the folder of results."""
        return f"{PARTS}/{self.name}.json" if self.program else f"{self.name}.json"

    @property
    def needs_data(self) -> bool:
        return any(word.partition("/")[0] == CAMVID for command in (*self.exports, self.command) for word in command)

    @property
    def paths(self) -> tuple[str, ...]:
        """The code that the result depends on, as git pathspecs."""
        if not self.program:
            return MEASURED_CODE
        more = {"batch": ("src/stmg/jobs",), "serving": ("src/stmg/serve",)}.get(self.program, ())
        return (*MEASURED_CODE, *more, f"benchmarks/{self.program}.py")


Stored = Result | Measurement


def read_stored(run: Run, folder: Path | None = None) -> Stored | None:
    """Read the result of a run; None if there is none that this version can read."""
    path = (folder or RESULTS) / run.file
    if run.program:
        return read_measurement(path) if path.is_file() else None
    try:
        return read_result(path)
    except DataError:
        return None
