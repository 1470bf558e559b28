"""The tables of any result, as views of its rows: each a list of columns."""

from __future__ import annotations

from collections.abc import Callable

from stmg.evaluation.evaluation_tables import evaluation_tables
from stmg.evaluation.fronts import list_front
from stmg.evaluation.results import (
    AblationResult,
    BenchmarkResult,
    EvaluationResult,
    Result,
    SizeBenchmark,
    TuneResult,
)
from stmg.evaluation.rows import Latency, Row
from stmg.evaluation.text_table import (
    NOT_COUNTED,
    NOTHING,
    Columns,
    TextTable,
    change,
    gmacs,
    gmacs_without_head,
    macs_share,
    make_table,
    mark_interrupted,
    million_params,
    number,
    ratio,
)
from stmg.evaluation.way import format_size
from stmg.streaming.schedulers import Level


def result_tables(result: Result) -> list[TextTable]:
    """The tables of any result."""
    if isinstance(result, EvaluationResult):
        return evaluation_tables(result)
    if isinstance(result, BenchmarkResult):
        return [table for run in result.sizes for table in benchmark_tables(result, run)]
    if isinstance(result, AblationResult):
        return ablation_tables(result)
    assert isinstance(result, TuneResult)
    return tune_tables(result)


def benchmark_tables(result: BenchmarkResult, run: SizeBenchmark) -> list[TextTable]:
    """The tables of one size: accuracy and speed; latency; cost; each level; whole passes; realtime."""
    tables = [speed_table(result, run), _latency_table(result, run), _cost_table(run), _level_table(run)]
    tables += [_pass_table(result, run)] if run.passes else []
    return tables + live_tables(run)


def speed_table(result: BenchmarkResult, run: SizeBenchmark) -> TextTable:
    title = f"{result.model} on {result.source}, {format_size(run.size)}, {run.frames} frames, {result.repeats} repeats"
    turns = f"in turns of {run.frames_per_turn} frames"
    if run.passes:
        turns += ", offline in turns of whole passes"
    gains = "gain is FPS relative to the base on the same runtime"
    exports = any(row.model_gain is not None for row in run.rows)
    if exports:
        gains += ", to model: relative to the base in the first row"
    parts = (run.settings, str(result.machine), run.runtime, turns, gains, *run.notes, result.warning)
    base = run.rows[0]
    columns: dict[str, Callable[[Row], str]] = {
        "": lambda row: row.name,
        "mIoU": lambda row: number(row.miou),
        "change": lambda row: change(row.miou, base.miou),
        "MACs": lambda row: macs_share(row.cost, base.cost),
        "FPS": lambda row: number(row.fps, 1),
        "gain": lambda row: ratio(row.gain),
    }
    if exports:
        columns["to model"] = lambda row: ratio(row.gain if row.model_gain is None else row.model_gain)
    columns["p95 ms"] = lambda row: _latency_cells(row.latency)[1]
    return make_table(title + mark_interrupted(result), run.rows, columns, note="; ".join(filter(None, parts)))


def _latency_table(result: BenchmarkResult, run: SizeBenchmark) -> TextTable:
    note = "slowest frame (by the fastest of its repeats) and median carried frame: relative to a median base frame"
    if any(row.way.kind == "offline" for row in run.rows):
        note += "; offline a frame waits for the anchor after it"
    headings = ("", "p50 ms", "p95 ms", "max ms", "slowest frame", "carried frame", "gain range")
    table = TextTable(f"Latency, {format_size(run.size)}", headings, note=note)
    for row in run.rows:
        timing = row.timing
        assert timing is not None, row.way
        overhead = None if timing.carry_overhead is None else 100 * timing.carry_overhead
        gains = NOTHING if result.repeats == 1 else _range(timing.gain_range)
        table.add(row.name, *_latency_cells(row.latency), ratio(timing.slowest_frame), number(overhead, 1, " %"), gains)
    return table


def _cost_table(run: SizeBenchmark) -> TextTable:
    reading = "rendering is not counted" if run.read_ms is None else f"reading takes {run.read_ms:.1f} ms"
    columns: Columns = {
        "": lambda row: row.name,
        "GMACs": lambda row: number(gmacs(row), missing=NOT_COUNTED),
        "without head": lambda row: number(gmacs_without_head(row), missing=NOT_COUNTED),
        "M params": lambda row: number(million_params(row)),
        "MACs gain": lambda row: ratio(row.timing.expected_gain if row.timing else None),
        "reached": lambda row: number(row.timing.gain_reached if row.timing else None),
        "peak MB": lambda row: number(None if row.peak_memory is None else row.peak_memory / 1e6, 0),
        "total FPS": lambda row: number(row.timing.end_to_end_fps if row.timing else None, 1),
    }
    note = f"{reading}, drawing takes {run.draw_ms:.1f} ms per frame; total: with both"
    return make_table(f"Cost of a mean frame, {format_size(run.size)}", run.rows, columns, note=note)


def _level_table(run: SizeBenchmark) -> TextTable:
    headings = ("", "level", "share", "p50 ms", "p95 ms", "max ms")
    table = TextTable(f"Each level, {format_size(run.size)}", headings)
    for row in run.rows:
        for at in row.timing.levels if row.timing else ():
            table.add(row.name, at.level, number(at.share, 0, " %"), *_latency_cells(at.latency, 2))
    return table


def _pass_table(result: BenchmarkResult, run: SizeBenchmark) -> TextTable:
    columns: Columns = {
        "": lambda row: row.name,
        "FPS": lambda row: number(row.fps, 1),
        "FPS range": lambda row: _range(row.timing.fps_range if row.timing else None, 1),
        "gain": lambda row: ratio(row.gain),
        "gain range": lambda row: _range(row.timing.gain_range if row.timing else None),
    }
    title = f"Whole passes by the wall clock, {format_size(run.size)}"
    note = f"{result.repeats} passes over all frames each, in turns; ratios within a repeat"
    return make_table(title, run.passes, columns, note=note)


def live_tables(run: SizeBenchmark) -> list[TextTable]:
    """The table of realtime streams; none if there were none."""
    if not run.realtime:
        return []
    note = "latency of every frame but the first, which waits for the network; age: frames since the one that the "
    note += "labels come from; runs: of the network; mIoU is that of what is on the screen at each frame"
    headings = ("", "mIoU", "change", "p50 ms", "p95 ms", "max ms", "mean age", "p95 age", "runs", "drops")
    first = run.realtime[0]
    assert first.live is not None, first.way
    title = f"Realtime, {format_size(run.size)}, {first.frames} frames at {first.live.rate:g} per second"
    table = TextTable(title, headings, note=note)
    for row in run.realtime:
        live = row.live
        assert live is not None, row.way
        ages = (number(live.mean_age, 1), number(live.p95_age, 0), str(live.network_runs), str(live.dropped))
        table.add(row.name, number(row.miou), change(row.miou, run.rows[0].miou), *_latency_cells(live.latency), *ages)
    return [table]


def ablation_tables(result: AblationResult) -> list[TextTable]:
    """The tables in the paper's layout."""
    base = result.base
    where = f"{result.model} on {result.data} {result.split}, {format_size(result.size)}, {result.frames} frames"
    note = f"{result.settings}; {result.runtime}; ± is the standard deviation over {result.seeds} seeds"
    if base.cost is not None:
        note += f"; MACs are relative to the base network's {base.cost.macs / 1e9:.2f} G"
    note += "; key: key frames; blocks: those that ran on partial frames"
    columns: Columns = {
        "": lambda row: row.name,
        "mIoU": lambda row: number(row.miou) + ("" if row.miou_std is None else f" ± {row.miou_std:.2f}"),
        "change": lambda row: change(row.miou, base.miou),
        "MACs": lambda row: macs_share(row.cost, base.cost),
        "params": lambda row: number(million_params(row), unit=" M"),
        "key": lambda row: number(row.share(Level.KEY), 0, " %"),
        "blocks": lambda row: number(row.kept_blocks, 0, " %"),
    }
    speeds: Columns = {
        "FPS": lambda row: number(row.fps if row.timing else None, 1),
        "gain": lambda row: ratio(row.gain if row.timing else None),
    }
    tables = []
    for group in result.tables:
        timed = any(row.timing is not None for row in group.rows)
        title = f"{group.title}: {where}{mark_interrupted(result)}"
        tables.append(make_table(title, group.rows, {**columns, **(speeds if timed else {})}))
    if tables:
        tables[-1].note = note  # one note for all tables
    return tables


def tune_tables(result: TuneResult) -> list[TextTable]:
    """The trade-off table, and the choice beside its check."""
    labeled = any(row.loss is not None for row in result.outcomes)
    columns: dict[str, Callable[[Row], str]] = {
        "network runs": lambda row: number(row.network_share, 0, " %"),
        "pixels changed": lambda row: number(None if row.changed is None else 100 * row.changed, 2, " %"),
        **({"mIoU loss": lambda row: number(row.loss, 2, " %")} if labeled else {}),
        "FPS": lambda row: number(row.fps, 1),
        "gain": lambda row: ratio(row.gain),
        "p95 ms": lambda row: _latency_cells(row.latency)[1],
    }

    def name(row: Row) -> str:
        model = "" if row.way.model is None else f"{row.way.model}: "
        return f"{model}{row.name}{' <' if row == result.best else ''}"

    own = f"the network's own labels change by {number(100 * result.flicker, 2, ' %')} from frame to frame"
    note = f"budget/longest; those that another of their kind beats in both are left out; {own}"
    verdict = f"goal: {result.goal}: {result.verdict}"
    title = f"{result.source} with {result.model}, {format_size(result.size)}, {result.frames} frames"
    note = note if result.best else f"{note}\n{verdict}"
    tables = [make_table(title, list_front(result), {"": name, **columns}, note=note)]
    if result.best is not None:
        promise = TextTable("promised and checked", ("", *columns), note=verdict)
        promise.add(f"estimated on {result.frames} frames", *(cell(result.best) for cell in columns.values()))
        if result.check is not None:
            measured = f"measured on {result.checked_frames} others"
            promise.add(measured, *(cell(result.check) for cell in columns.values()))
        tables.append(promise)
    return tables


def _latency_cells(latency: Latency | None, digits: int = 1) -> tuple[str, str, str]:
    if latency is None:
        return NOTHING, NOTHING, NOTHING
    return number(latency.p50_ms, digits), number(latency.p95_ms, digits), number(latency.max_ms, digits)


def _range(values: tuple[float, float] | None, digits: int = 2) -> str:
    return NOTHING if values is None else f"{values[0]:.{digits}f}-{values[1]:.{digits}f}"
