"""Figures: the measured numbers of the documents by name, read from the results.

A figure is a number with a comment behind it that does not show on the page: `4.4×<!--=slim/offline/gain-->`.
The name is RESULT/ROW/NUMBER: a result in `benchmarks/results`, a row as its table calls it, a number of that row;
`python -m benchmarks --figures slim/` lists them. The document decides how many decimals are shown, and a leading + or
− there keeps the sign shown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache

from benchmarks.measurement import Measurement
from benchmarks.run import Stored, read_stored
from benchmarks.runs import RUNS
from stmg.evaluation.results import AblationResult, BenchmarkResult, EvaluationResult
from stmg.evaluation.rows import Row, percent_change, percent_of_macs
from stmg.streaming.schedulers import Level

SHORT = {
    "slim": "ddrnet23-slim-camvid-pytorch",
    "slim-exports": "ddrnet23-slim-camvid",
    "lite0": "lite0-camvid-pytorch",
    "lite0-exports": "lite0-camvid",
    "ddrnet39": "ddrnet39-camvid-pytorch",
    "ddrnet39-exports": "ddrnet39-camvid",
    "streets": "ddrnet23-slim-streets",
}
"""Short names of results."""
PREFIXES = {"slim-": "ddrnet23-slim-camvid-", "ddrnet39-": "ddrnet39-camvid-"}
FIGURE = re.compile(
    r"(?<![\d.,])(?P<sign>[+−-]?)(?P<number>\d+(?:,\d{3})*(?:\.\d+)?)(?P<unit>[^\d\n<>|]{0,8}?)<!--=(?P<name>[^>\n]+?)-->"
)
MARK = re.compile(r"<!--=[^>]*-->")
NumbersByRow = Mapping[str, Mapping[str, float]]
"""Numbers by the name of the row, then by their own name."""


class NoResultError(LookupError):
    """The run of a figure has no result yet."""


def figure(name: str) -> float:
    """Look up a number by its name."""
    parts = name.split("/")
    if len(parts) != 3:
        raise KeyError(f"a figure is called RESULT/ROW/NUMBER; got {name!r}")
    result, row, number = parts
    rows = read_numbers(full_name(result))
    if row not in rows:
        raise KeyError(f"{result} has no row {row!r}; it has {', '.join(rows)}")
    if number not in rows[row]:
        raise KeyError(f"{result}/{row} has no {number!r}; it has {', '.join(rows[row])}")
    return rows[row][number]


def write_figures(page: str) -> str:
    """Write every figure of a document from the results. Figures whose run has no result yet stay as they are."""

    def write(match: re.Match[str]) -> str:
        try:
            value = figure(match["name"])
        except NoResultError:
            return match[0]
        return f"{format_number(value, match['sign'], match['number'])}{match['unit']}<!--={match['name']}-->"

    return FIGURE.sub(write, page)


def format_number(value: float, sign: str, like: str) -> str:
    """Format a number with as many decimals as `like`, and with a sign if there was one."""
    decimals = len(like.partition(".")[2])
    text = f"{abs(value):,.{decimals}f}"
    is_zero = not text.strip("0.,")
    if value < 0 and not is_zero:
        return ("-" if sign == "-" else "−") + text
    return "+" + text if sign else text


def figure_names(page: str) -> list[str]:
    """The names of all figures in a document."""
    return [match["name"] for match in FIGURE.finditer(page)]


def full_name(result: str) -> str:
    """The name of a run from its short name in a figure."""
    if result in SHORT:
        return SHORT[result]
    prefix = next((prefix for prefix in PREFIXES if result.startswith(prefix)), "")
    long = PREFIXES.get(prefix, "") + result.removeprefix(prefix)
    return long if any(run.name == long for run in RUNS) else result


@cache
def read_numbers(name: str) -> NumbersByRow:
    """All numbers of the result of a run."""
    run = next((run for run in RUNS if run.name == name), None)
    if run is None:
        raise KeyError(f"there is no run {name!r}; there are {', '.join(run.name for run in RUNS)}")
    stored = read_stored(run)
    if stored is None:
        raise NoResultError(name)
    return numbers_of(stored)


def numbers_of(stored: Stored) -> NumbersByRow:
    """All numbers of a result."""
    if isinstance(stored, BenchmarkResult):
        return _benchmark_numbers(stored)
    if isinstance(stored, EvaluationResult):
        return _evaluation_numbers(stored)
    if isinstance(stored, AblationResult):
        rows = [stored.base, *(row for table in stored.tables for row in table.rows)]
        names = [row_name(row).strip().replace(" network", "") for row in rows]
        return {name: _row_numbers(row, stored.base) for name, row in zip(reversed(names), reversed(rows), strict=True)}
    assert isinstance(stored, Measurement), stored
    return {name: _known(row) for name, row in stored.rows.items()}


def row_name(row: Row) -> str:
    """The name of a row in figures, without settings: the command of the run has these."""
    if row.way.kind != "ablation":
        return replace(row.way, settings={}).name.replace(" on every frame", "")
    return row.name


def _benchmark_numbers(result: BenchmarkResult) -> NumbersByRow:
    (at_size,) = result.sizes
    rows = (*at_size.rows, *at_size.realtime)
    return {row_name(row): _row_numbers(row, at_size.rows[0]) for row in rows}


def _evaluation_numbers(result: EvaluationResult) -> NumbersByRow:
    streams = {row_name(row): _stream_numbers(row, result.base) for row in result.modes}
    truth = _known({"consistency": result.truth_consistency})
    return {"truth": truth, "base": _row_numbers(result.base, result.base), **streams}


def _row_numbers(row: Row, base: Row) -> Mapping[str, float]:
    timing, live, latency = row.timing, row.live, row.latency
    gains = None if timing is None else timing.gain_range
    computed = row.share(Level.KEY) if row.levels and live is None else None
    return _known(
        {
            **_accuracy(row.miou, base.miou),
            "macs": percent_of_macs(row.cost, base.cost),
            **_change_and_loss("boundary ", row.boundary_iou, base.boundary_iou),
            "consistency": row.consistency,
            "changed": None if row.agreement_pixels is None else 100 - row.agreement_pixels,
            "std": row.miou_std,
            "kept": row.kept_blocks,
            "computed": computed if row.network_share is None else row.network_share,
            "partial": row.share(Level.PARTIAL) if row.levels else None,
            "fps": None if timing is None else timing.fps,
            "gain": None if timing is None else timing.gain,
            "least gain": None if gains is None else gains[0],
            "most gain": None if gains is None else gains[1],
            "gain of FP32": row.model_gain,
            "p50": None if latency is None else latency.p50_ms,
            "p95": None if latency is None else latency.p95_ms,
            "max": None if latency is None else latency.max_ms,
            "slowest": None if timing is None else timing.slowest_frame,
            "MB": None if row.peak_memory is None else row.peak_memory / 1e6,
            "age": row.mean_distance if live is None else live.mean_age,
            "runs": None if live is None else live.network_runs,
        }
    )


def _stream_numbers(row: Row, base: Row) -> Mapping[str, float]:
    distances = {f"change at {at.distance}": percent_change(at.miou, at.base_miou) for at in row.by_distance}
    classes = {each.name: each.iou for each in base.classes}
    points = {
        f"points of {each.name}": None if each.iou is None else each.iou - of_base
        for each in row.classes
        if (of_base := classes[each.name]) is not None
    }
    return {**_row_numbers(row, base), **_known({**distances, **points})}


def _accuracy(miou: float | None, base: float | None) -> dict[str, float | None]:
    return {"miou": miou, **_change_and_loss("", miou, base)}


def _change_and_loss(prefix: str, value: float | None, base: float | None) -> dict[str, float | None]:
    change = percent_change(value, base)
    return {f"{prefix}change": change, f"{prefix}loss": None if change is None else -change}


def _known(row: Mapping[str, float | None]) -> dict[str, float]:
    return {key: value for key, value in row.items() if value is not None}


def list_figures(prefix: str) -> list[str]:
    """A line with name and value of every figure whose name begins with `prefix`."""
    lines = []
    short = {long: name for name, long in SHORT.items()}
    for run in RUNS:
        stored = read_stored(run)
        rows = {} if stored is None else numbers_of(stored)
        for row, numbers in rows.items():
            names = {f"{short.get(run.name, run.name)}/{row}/{key}": value for key, value in numbers.items()}
            lines += [f"{name}  {value:.4g}" for name, value in names.items() if name.startswith(prefix)]
    return lines
