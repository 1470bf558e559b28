"""A run: a command that writes a result, where that result is kept, and how it is read."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

from benchmarks.history import MEASURED, ROOT
from benchmarks.measurement import Measurement, read_measurement
from stmg.errors import DataError
from stmg.evaluation.method import Method
from stmg.evaluation.results import Result
from stmg.evaluation.storage import read_result

CAMVID = "CAMVID"
"""Stands for the folder of the dataset in commands; `--data` says where it is."""
RESULTS = ROOT / "benchmarks" / "results"
PARTS = "parts"
"""The folder in it for the results of this folder's programs; `stmg report` reads those of stmg beside it."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """A command that writes a result: of stmg, or a program of this folder."""

    name: str
    """Of the result's file."""
    page: str = ""
    """The page that shows the result; programs have a table of their own, by name, on any page."""
    command: tuple[str, ...]
    minutes: float
    """How long it is expected to take on two cores, exports included."""
    program: str = ""
    """A module of this folder; empty for a command of stmg."""
    exports: tuple[tuple[str, ...], ...] = ()
    """Commands of stmg that have to be carried out before."""
    needs: str = ""
    """What the command needs that no other command makes; such a run is carried out by hand."""
    network: str = ""
    """Whose rows of the summary the result may give; empty for settings other than its own."""
    runtime: str = "PyTorch"
    """Of the model itself; exports beside it have their own."""
    rows: tuple[Method, ...] = ()
    """Those that the result is there to give."""

    @property
    def typed(self) -> str:
        """What a reader types, and what the result says of itself."""
        if self.program:
            return shlex.join(["python", "-m", f"benchmarks.{self.program}", *self.command])
        return shlex.join(["stmg", *self.command, "--out", f"results/{self.name}"])

    @property
    def file(self) -> str:
        """Of the result, in the folder of results."""
        return f"{PARTS}/{self.name}.json" if self.program else f"{self.name}.json"

    @property
    def needs_data(self) -> bool:
        return any(word.partition("/")[0] == CAMVID for command in (*self.exports, self.command) for word in command)

    @property
    def paths(self) -> tuple[str, ...]:
        """What the result depends on, as git pathspecs."""
        if not self.program:
            return MEASURED
        more = {"batch": ("src/stmg/jobs",), "serving": ("src/stmg/serve",)}.get(self.program, ())
        return (*MEASURED, *more, f"benchmarks/{self.program}.py")


Stored = Result | Measurement


def read_stored(run: Run, folder: Path | None = None) -> Stored | None:
    """The result of a run; None if there is none that this version can read."""
    path = (folder or RESULTS) / run.file
    if run.program:
        return read_measurement(path) if path.is_file() else None
    try:
        return read_result(path)
    except DataError:
        return None
