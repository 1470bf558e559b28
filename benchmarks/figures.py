"""Figures: the measured numbers of the documents by name, read from the results.

A figure is a number with a comment behind it that does not show on the page: `4.4×<!--=slim/offline/gain-->`.
The name is RESULT/ROW/NUMBER: a result in `benchmarks/results`, a row as its table calls it, a number of that row;
`python -m benchmarks --figures slim/` lists them. The document decides how many decimals are shown, and a leading + or
− there keeps the sign shown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from benchmarks.measurement import Measurement
from benchmarks.run import Stored, read_stored
from benchmarks.runs import RUNS
from stmg.evaluation.results import (
    AblationResult,
    AblationRow,
    BenchmarkResult,
    BenchmarkRow,
    EvaluationResult,
    FrameCost,
    ModeScores,
    RealtimeRow,
    StreamScores,
)
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
Numbers = Mapping[str, Mapping[str, float]]
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
def read_numbers(name: str) -> Numbers:
    """All numbers of the result of a run."""
    run = next((run for run in RUNS if run.name == name), None)
    if run is None:
        raise KeyError(f"there is no run {name!r}; there are {', '.join(run.name for run in RUNS)}")
    stored = read_stored(run)
    if stored is None:
        raise NoResultError(name)
    return numbers_of(stored)


def numbers_of(stored: Stored) -> Numbers:
    """All numbers of a result."""
    if isinstance(stored, BenchmarkResult):
        return _benchmark_numbers(stored)
    if isinstance(stored, EvaluationResult):
        return _evaluation_numbers(stored)
    if isinstance(stored, AblationResult):
        rows = [stored.base, *(row for table in stored.tables for row in table.rows)]
        return {row.name.strip().replace(" network", ""): _ablation_numbers(row, stored.base) for row in reversed(rows)}
    assert isinstance(stored, Measurement), stored
    return {name: _known(row) for name, row in stored.rows.items()}


def _benchmark_numbers(result: BenchmarkResult) -> Numbers:
    (at_size,) = result.sizes
    base = at_size.rows[0]
    stepped = {row_name(row): _row_numbers(row, base) for row in at_size.rows}
    return stepped | {row_name(row): _realtime_numbers(row, base) for row in at_size.realtime}


def row_name(row: BenchmarkRow | RealtimeRow) -> str:
    """The name of a row of a benchmark in figures."""
    return row.method.name.replace(" on every frame", "")


def _row_numbers(row: BenchmarkRow, base: BenchmarkRow) -> Mapping[str, float]:
    timing = row.timing
    shares = {f"{level.level}": level.share for level in timing.levels}
    return _known(
        {
            **_accuracy(row.miou, base.miou),
            **_macs(timing.cost, base.timing.cost),
            "computed": shares.get(Level.KEY, 0.0),
            "partial": shares.get(Level.PARTIAL, 0.0),
            "fps": timing.fps,
            "gain": timing.gain,
            "least gain": timing.gain_range[0],
            "most gain": timing.gain_range[1],
            "gain of FP32": row.model_gain,
            "p50": timing.latency.p50_ms,
            "p95": timing.latency.p95_ms,
            "max": timing.latency.max_ms,
            "slowest": timing.slowest_frame,
            "MB": None if row.peak_memory is None else row.peak_memory / 1e6,
        }
    )


def _realtime_numbers(row: RealtimeRow, base: BenchmarkRow) -> Mapping[str, float]:
    return _known(
        {
            **_accuracy(row.miou, base.miou),
            "p50": row.latency.p50_ms,
            "p95": row.latency.p95_ms,
            "max": row.latency.max_ms,
            "age": row.mean_age,
            "runs": row.network_runs,
        }
    )


def _evaluation_numbers(result: EvaluationResult) -> Numbers:
    streams = {mode.name: _stream_numbers(mode, result) for mode in result.modes}
    truth = _known({"consistency": result.truth_consistency})
    return {"truth": truth, "base": _score_numbers(result.base, result.base), **streams}


def _stream_numbers(mode: ModeScores, result: EvaluationResult) -> Mapping[str, float]:
    distances = {f"change at {at.distance}": _change(at.miou, at.base_miou) for at in mode.scores.by_distance}
    classes = {each.name: each.iou for each in result.base.classes}
    points = {
        f"points of {each.name}": None if each.iou is None or classes[each.name] is None else each.iou - base
        for each in mode.scores.classes
        if (base := classes[each.name]) is not None
    }
    computed = {"computed": mode.network_share, "age": mode.mean_distance}
    return {**_score_numbers(mode.scores, result.base), **_known({**computed, **distances, **points})}


def _score_numbers(scores: StreamScores, base: StreamScores) -> Mapping[str, float]:
    agreement = scores.agreement_pixels
    return _known(
        {
            **_accuracy(scores.miou, base.miou),
            **_macs(scores.cost, base.cost),
            **_change_and_loss("boundary ", scores.boundary_iou, base.boundary_iou),
            "consistency": scores.consistency,
            "changed": None if agreement is None else 100 - agreement,
        }
    )


def _ablation_numbers(row: AblationRow, base: AblationRow) -> Mapping[str, float]:
    return _known(
        {
            **_accuracy(row.miou, base.miou),
            **_macs(row.cost, base.cost),
            "std": row.miou_std,
            "computed": row.key_share,
            "kept": row.kept_blocks,
            "gain": row.gain,
        }
    )


def _accuracy(miou: float | None, base: float | None) -> dict[str, float | None]:
    return {"miou": miou, **_change_and_loss("", miou, base)}


def _change_and_loss(prefix: str, value: float | None, base: float | None) -> dict[str, float | None]:
    change = _change(value, base)
    return {f"{prefix}change": change, f"{prefix}loss": None if change is None else -change}


def _macs(cost: FrameCost | None, base: FrameCost | None) -> dict[str, float | None]:
    return {"macs": 100 * cost.macs / base.macs if cost and base and base.macs else None}


def _change(value: float | None, base: float | None) -> float | None:
    """How far a number is from another, in percent of that."""
    return None if value is None or not base else 100 * (value / base - 1)


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
