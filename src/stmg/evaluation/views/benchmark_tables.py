"""Tables of a benchmark: accuracy and speed, latency, cost, each level, whole passes and realtime, at one size."""

from __future__ import annotations

from stmg.evaluation.results import BenchmarkResult, FrameCost, Latency, SizeBenchmark
from stmg.evaluation.views.text_table import (
    NOT_COUNTED,
    NOTHING,
    TextTable,
    change,
    macs_share,
    mark_interrupted,
    number,
    ratio,
    size_text,
)


def benchmark_tables(result: BenchmarkResult, run: SizeBenchmark) -> list[TextTable]:
    """Accuracy and speed; latency; cost; each level apart; whole passes; realtime: at one size."""
    tables = [_speed_table(result, run), _latency_table(result, run), _cost_table(run), _level_table(run)]
    if run.passes:
        tables.append(_pass_table(result, run))
    if run.realtime:
        tables.append(_realtime_table(run))
    return tables


def _speed_table(result: BenchmarkResult, run: SizeBenchmark) -> TextTable:
    title = f"{result.model} on {result.source}, {size_text(run.size)}, {run.frames} frames, {result.repeats} repeats"
    turns = f"in turns of {run.frames_per_turn} frames"
    if run.passes:
        turns += ", offline in turns of whole passes"
    gains = "gain is FPS relative to the base on the same runtime"
    exports = any(row.model_gain is not None for row in run.rows)
    if exports:
        gains += ", to model: relative to the base in the first row"
    note = "; ".join(filter(None, (run.settings, str(result.machine), run.runtime, turns, gains, result.warning)))
    headings = ("", "mIoU", "change", "MACs", "FPS", "gain", *(("to model",) if exports else ()), "p95 ms")
    table = TextTable(title + mark_interrupted(result), headings, note=note)
    base = run.rows[0]
    for row in run.rows:
        timing = row.timing
        table.add(
            row.method.name,
            number(row.miou),
            change(row.miou, base.miou),
            macs_share(timing.cost, base.timing.cost),
            number(timing.fps, 1),
            ratio(timing.gain),
            *((ratio(timing.gain if row.model_gain is None else row.model_gain),) if exports else ()),
            number(timing.latency.p95_ms, 1),
        )
    return table


def _latency_table(result: BenchmarkResult, run: SizeBenchmark) -> TextTable:
    note = "slowest frame (by the fastest of its repeats) and median carried frame: relative to a median base frame"
    if any(row.method.kind == "offline" for row in run.rows):
        note += "; offline a frame waits for the anchor after it"
    headings = ("", "p50 ms", "p95 ms", "max ms", "slowest frame", "carried frame", "gain range")
    table = TextTable(f"Latency, {size_text(run.size)}", headings, note=note)
    for row in run.rows:
        timing = row.timing
        table.add(
            row.method.name,
            *_latency_cells(timing.latency),
            ratio(timing.slowest_frame),
            NOTHING if timing.carry_overhead is None else f"{100 * timing.carry_overhead:.1f} %",
            NOTHING if result.repeats == 1 else _range(timing.gain_range),
        )
    return table


def _cost_table(run: SizeBenchmark) -> TextTable:
    reading = "rendering is not counted" if run.read_ms is None else f"reading takes {run.read_ms:.1f} ms"
    table = TextTable(
        f"Cost of a mean frame, {size_text(run.size)}",
        ("", "GMACs", "without head", "M params", "MACs gain", "reached", "peak MB", "total FPS"),
        note=f"{reading}, drawing takes {run.draw_ms:.1f} ms per frame; total: with both",
    )
    for row in run.rows:
        timing = row.timing
        table.add(
            row.method.name,
            *_cost_cells(timing.cost),
            ratio(timing.expected_gain),
            number(timing.gain_reached),
            number(None if row.peak_memory is None else row.peak_memory / 1e6, 0),
            number(timing.end_to_end_fps, 1),
        )
    return table


def _level_table(run: SizeBenchmark) -> TextTable:
    headings = ("", "level", "share", "p50 ms", "p95 ms", "max ms")
    table = TextTable(f"Each level, {size_text(run.size)}", headings)
    for row in run.rows:
        for at in row.timing.levels:
            table.add(row.method.name, at.level, number(at.share, 0, " %"), *_latency_cells(at.latency, 2))
    return table


def _pass_table(result: BenchmarkResult, run: SizeBenchmark) -> TextTable:
    table = TextTable(
        f"Whole passes by the clock on the wall, {size_text(run.size)}",
        ("", "FPS", "FPS range", "gain", "gain range"),
        note=f"{result.repeats} passes over all frames each, in turns; ratios within a repeat",
    )
    for row in run.passes:
        figures = (number(row.fps, 1), _range(row.fps_range, 1), ratio(row.gain), _range(row.gain_range))
        table.add(row.method.name, *figures)
    return table


def _realtime_table(run: SizeBenchmark) -> TextTable:
    rate, base = run.realtime[0].rate, run.rows[0]
    note = "latency of every frame but the first, which waits for the network; age: frames since the one that the "
    note += "labels come from; runs: of the network; mIoU is that of what is on the screen at each frame"
    table = TextTable(
        f"Realtime, {size_text(run.size)}, {run.realtime[0].frames} frames at {rate:g} per second",
        ("", "mIoU", "change", "p50 ms", "p95 ms", "max ms", "mean age", "p95 age", "runs", "drops"),
        note=note,
    )
    for row in run.realtime:
        table.add(
            row.method.name,
            number(row.miou),
            change(row.miou, base.miou),
            *_latency_cells(row.latency),
            number(row.mean_age, 1),
            number(row.p95_age, 0),
            str(row.network_runs),
            str(row.dropped),
        )
    return table


def _latency_cells(latency: Latency, digits: int = 1) -> tuple[str, str, str]:
    return (number(latency.p50_ms, digits), number(latency.p95_ms, digits), number(latency.max_ms, digits))


def _range(values: tuple[float, float], digits: int = 2) -> str:
    return f"{values[0]:.{digits}f}-{values[1]:.{digits}f}"


def _cost_cells(cost: FrameCost | None) -> tuple[str, str, str]:
    if cost is None:
        return NOT_COUNTED, NOT_COUNTED, NOTHING
    return number(cost.macs / 1e9), number(cost.macs_without_head / 1e9), number(cost.params / 1e6)
