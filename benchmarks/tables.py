"""Tables of BENCHMARKS.md and its pages, from the results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.figures import numbers_of, row_name
from benchmarks.measurement import Measurement
from benchmarks.run import RESULTS, Run, Stored, read_stored
from benchmarks.runs import METHODS, RUNS, RUNTIMES, on_runtime
from stmg.evaluation.evaluation_tables import evaluation_tables
from stmg.evaluation.results import AblationResult, BenchmarkResult, EvaluationResult
from stmg.evaluation.tables import ablation_tables, live_tables, speed_table
from stmg.evaluation.text_table import TextTable, number
from stmg.evaluation.way import Way

FP32 = [base for base in RUNTIMES.values() if base.bits != 8]  # changes are relative to these
HEADINGS = (
    "network",
    "mode",
    "runtime",
    "mIoU",
    "change",
    "FPS",
    "gain",
    "p50 ms",
    "max ms",
    "peak MB",
    "machine",
    "from",
)


@dataclass(frozen=True)
class Source:
    """A run and its result, where rows of the summary come from."""

    run: Run
    result: BenchmarkResult

    def rows(self) -> dict[Way, Mapping[str, float]]:
        """The numbers of every row, with the runtime of the model filled in where a row names none."""
        (at_size,) = self.result.sizes
        numbers = numbers_of(self.result)
        rows = (*at_size.rows, *at_size.realtime)
        return {on_runtime(row.way, self.run.runtime): numbers[row_name(row)] for row in rows}

    @property
    def processor(self) -> str:
        return self.result.machine.processor.replace("(R)", "").partition(" Processor")[0]

    def line(self, at: int) -> str:
        raw = f"[raw](benchmarks/results/{self.run.file})"
        return f"{at}. `{self.result.command}` on {self.result.machine}; {raw}"


def summary_cells(network: str, method: Way, numbers: Mapping[str, float]) -> tuple[str, ...]:
    """The cells of a row of the summary, up to the machine."""
    gain = number(numbers.get("gain"), 2, "×", "")
    if method.bits == 8 and "gain of FP32" in numbers:
        gain += f" ({numbers['gain of FP32']:.2f}× of FP32)"
    change = numbers.get("change")
    return (
        network,
        _kind(method).name,
        _runtime_name(method),
        number(numbers.get("miou"), missing=""),
        "" if change is None or method in FP32 else f"{change:+.2f} %",
        number(numbers.get("fps"), 1, missing=""),
        gain,
        *(number(numbers.get(key), 1, missing="") for key in ("p50", "max")),
        number(numbers.get("MB"), 0, missing=""),
    )


def summary(folder: Path = RESULTS, runs: Sequence[Run] = RUNS) -> str:
    """A table of every network in every mode on every runtime, and the source of each row below it."""
    sources = [
        Source(run, result)
        for run in runs
        if run.network and isinstance(result := read_stored(run, folder), BenchmarkResult)
    ]
    found: dict[tuple[str, Way], tuple[Mapping[str, float], Source]] = {}
    for source in sources:
        for method, numbers in source.rows().items():
            found.setdefault((source.run.network, method), (numbers, source))
    lines: list[tuple[str, ...]] = []
    used: list[Source] = []
    for network in dict.fromkeys(run.network for run in runs if run.network):
        present = {row for run in runs if run.network == network for row in run.rows if (network, row) in found}
        for method in sorted(present, key=_order):
            numbers, source = found[network, method]
            if source not in used:
                used.append(source)
            cells = summary_cells(network, method, numbers)
            lines.append((*cells, source.processor, str(used.index(source) + 1)))
    missing = ", ".join(run.name for run in runs if run.network and run not in [source.run for source in sources])
    notes = ["", f"Not run yet: {missing}."] if missing else []
    origins = (source.line(at) for at, source in enumerate(used, 1))
    return "\n".join((_markdown(HEADINGS, lines), "", *origins, *notes))


def minutes(runs: Sequence[Run] = RUNS) -> str:
    """A line that says how long all runs take."""
    total = sum(run.minutes for run in runs)
    return (
        f"{len(runs)} runs, about {total:.0f} minutes in all on two cores: an estimate, the sum of those of the runs."
    )


def run_list(runs: Sequence[Run] = RUNS) -> str:
    """A table of the runs with their commands."""
    lines = []
    for run in runs:
        exports = [f"`stmg {' '.join(command)}`" for command in run.exports]
        exports += [f"by hand: it needs {run.needs}"] if run.needs else []
        lines.append((run.name, f"{run.minutes:g}", "<br>".join((*exports, f"`{run.command_line}`"))))
    return _markdown(("run", "minutes", "commands"), lines)


def page_tables(page: str, folder: Path = RESULTS, runs: Sequence[Run] = RUNS) -> str:
    """The tables of a page, and the names of its runs without a result."""
    mine = {run: read_stored(run, folder) for run in runs if run.page == page}
    parts = []
    for run, result in mine.items():
        if result is not None:
            raw = f"[raw](../results/{run.name}.json)"
            tables = (table.markdown().rstrip() for table in _main_tables(result))
            parts += [f"`{result.command}` ({raw})", *tables]
    missing = ", ".join(run.name for run, result in mine.items() if result is None)
    return "\n\n".join(parts + ([f"Not run yet: {missing}."] if missing else []))


def program_table(run: Run, link: str, folder: Path = RESULTS) -> str | None:
    """The table of a program of this folder; None if it has no result yet.

    link: to the folder of results from where the table is shown.
    """
    result = read_stored(run, folder)
    if not isinstance(result, Measurement):
        return None
    raw = f"[raw]({link}/{run.file})"
    return f"`{result.command}` ({raw})\n\n{result.table().markdown().rstrip()}"


def _main_tables(result: Stored) -> list[TextTable]:
    """The tables of a result that a page shows; `stmg report` shows all."""
    if isinstance(result, EvaluationResult):
        return evaluation_tables(result)[:1]
    if isinstance(result, AblationResult):
        return ablation_tables(result)
    assert isinstance(result, BenchmarkResult), result
    return [table for run in result.sizes for table in (speed_table(result, run), *live_tables(run))]


def _kind(method: Way) -> Way:
    return replace(method, runtime=None, bits=None, export=None)


def _order(method: Way) -> tuple[int, int]:
    return METHODS.index(_kind(method)), list(RUNTIMES.values()).index(method.reference)


def _runtime_name(method: Way) -> str:
    return next(name for name, base in RUNTIMES.items() if base == method.reference)


def _markdown(headings: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    return "\n".join("| " + " | ".join(line) + " |" for line in (headings, ["---"] * len(headings), *lines))
