"""Tables: what BENCHMARKS.md and its pages show of the results of the runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.measurement import Measurement
from benchmarks.run import RESULTS, Run, Stored, read_stored
from benchmarks.runs import METHODS, RUNS, RUNTIMES, on_runtime
from stmg.evaluation.method import BASE, Method
from stmg.evaluation.results import AblationResult, BenchmarkResult, EvaluationResult, Latency
from stmg.evaluation.views.benchmark_tables import benchmark_tables
from stmg.evaluation.views.evaluation_tables import evaluation_tables
from stmg.evaluation.views.tables import ablation_tables
from stmg.evaluation.views.text_table import TextTable, number

FP32 = [base for base in RUNTIMES.values() if base.bits != 8]  # what changes are relative to
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


@dataclass(frozen=True, kw_only=True)
class Row:
    """A method on a runtime, as the summary shows it."""

    network: str
    method: Method
    miou: float | None = None
    change: float | None = None
    """Of the mIoU, in percent of the network's on every frame."""
    fps: float | None = None
    gain: float | None = None
    fp32_gain: float | None = None
    """Of an export in INT8: relative to the FP32 network on every frame that it was measured beside."""
    p50_ms: float | None = None
    max_ms: float | None = None
    peak_mb: float | None = None

    def cells(self) -> tuple[str, ...]:
        gain = number(self.gain, 2, "×", "")
        if self.fp32_gain is not None:
            gain += f" ({self.fp32_gain:.2f}× of FP32)"
        return (
            self.network,
            _kind(self.method).name,
            _runtime_name(self.method),
            number(self.miou, missing=""),
            "" if self.change is None or self.method in FP32 else f"{self.change:+.2f} %",
            number(self.fps, 1, missing=""),
            gain,
            *(number(value, 1, missing="") for value in (self.p50_ms, self.max_ms)),
            number(self.peak_mb, 0, missing=""),
        )


@dataclass(frozen=True, kw_only=True)
class Source:
    """Rows that come from one command."""

    command: str
    machine: str
    rows: tuple[Row, ...]
    file: str
    """The raw result."""

    @property
    def processor(self) -> str:
        """Of its machine, in short."""
        return self.machine.partition(",")[0].replace("(R)", "").partition(" Processor")[0]


Found = dict[tuple[str, Method], tuple[Row, Source]]
"""Rows by network and method, each with where it comes from."""


def make_source(run: Run, result: BenchmarkResult) -> Source:
    """The rows of a result, those of the model itself said of its runtime."""
    (at_size,) = result.sizes
    base = at_size.row(BASE).miou

    def make(method: Method, miou: float | None, latency: Latency) -> Row:
        return Row(
            network=run.network,
            method=on_runtime(method, run.runtime),
            miou=miou,
            change=100 * (miou / base - 1) if miou is not None and base else None,
            p50_ms=latency.p50_ms,
            max_ms=latency.max_ms,
        )

    stepped = (
        replace(
            make(each.method, each.miou, each.timing.latency),
            fps=each.timing.fps,
            gain=each.timing.gain,
            fp32_gain=each.model_gain if each.method.bits == 8 else None,
            peak_mb=None if each.peak_memory is None else each.peak_memory / 1e6,
        )
        for each in at_size.rows
    )
    live = (make(each.method, each.miou, each.latency) for each in at_size.realtime)
    return Source(
        command=result.command,
        machine=str(result.machine),
        rows=(*stepped, *live),
        file=f"benchmarks/results/{run.name}.json",
    )


def summary(folder: Path = RESULTS, runs: Sequence[Run] = RUNS) -> str:
    """Every network in every mode on every runtime, and under it where each row comes from."""
    kept = {run: result for run in runs if isinstance(result := read_stored(run, folder), BenchmarkResult)}
    sources = [make_source(run, result) for run, result in kept.items() if run.network]
    found: Found = {}
    for source in sources:
        for row in source.rows:
            found.setdefault((row.network, row.method), (row, source))
    lines: list[tuple[str, ...]] = []
    used: dict[Source, int] = {}
    for network in dict.fromkeys(run.network for run in runs if run.network):
        present = {row for run in runs if run.network == network for row in run.rows if (network, row) in found}
        for method in sorted(present, key=_order):
            row, source = found[network, method]
            number = used.setdefault(source, len(used) + 1)
            lines.append((*row.cells(), source.processor, str(number)))
    missing = ", ".join(run.name for run in runs if run.network and run not in kept)
    notes = ["", f"Not run yet: {missing}."] if missing else []
    origins = (_source_line(at, source) for source, at in used.items())
    return "\n".join((_markdown(HEADINGS, lines), "", *origins, *notes))


def minutes(runs: Sequence[Run] = RUNS) -> str:
    """How long all runs take."""
    total = sum(run.minutes for run in runs)
    return (
        f"{len(runs)} runs, about {total:.0f} minutes in all on two cores: an estimate, the sum of those of the runs."
    )


def run_list(runs: Sequence[Run] = RUNS) -> str:
    """The runs with their commands."""
    lines = []
    for run in runs:
        exports = [f"`stmg {' '.join(command)}`" for command in run.exports]
        exports += [f"by hand: it needs {run.needs}"] if run.needs else []
        lines.append((run.name, f"{run.minutes:g}", "<br>".join((*exports, f"`{run.typed}`"))))
    return _markdown(("run", "minutes", "commands"), lines)


def page_tables(page: str, folder: Path = RESULTS, runs: Sequence[Run] = RUNS) -> str:
    """The results of the runs that belong on a page, and the names of those that are not there."""
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
    """What a program of this folder measured; None if its result is not there yet.

    link: to the folder of results from where the table is shown.
    """
    result = read_stored(run, folder)
    if not isinstance(result, Measurement):
        return None
    raw = f"[raw]({link}/{run.file})"
    return f"`{result.command}` ({raw})\n\n{result.table().markdown().rstrip()}"


def _main_tables(result: Stored) -> list[TextTable]:
    """What a page shows of a result; `stmg report` shows all of it."""
    if isinstance(result, EvaluationResult):
        return evaluation_tables(result)[:1]
    if isinstance(result, AblationResult):
        return ablation_tables(result)
    assert isinstance(result, BenchmarkResult), result
    tables = [benchmark_tables(result, at_size) for at_size in result.sizes]
    return [table for each in tables for table in (each[0], *each[5:])]


def _kind(method: Method) -> Method:
    return replace(method, runtime=None, bits=None, export=None)


def _order(method: Method) -> tuple[int, int]:
    return METHODS.index(_kind(method)), list(RUNTIMES.values()).index(method.reference)


def _runtime_name(method: Method) -> str:
    return next(name for name, base in RUNTIMES.items() if base == method.reference)


def _source_line(at: int, source: Source) -> str:
    return f"{at}. `{source.command}` on {source.machine}; [raw]({source.file})"


def _markdown(headings: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    return "\n".join("| " + " | ".join(line) + " |" for line in (headings, ["---"] * len(headings), *lines))
