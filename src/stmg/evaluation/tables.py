"""Tables of results, narrow enough for 80 columns: one form for the screen, Markdown and HTML."""

from __future__ import annotations

import html
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from rich import box
from rich.console import Group
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from stmg.evaluation.results import (
    AblationResult,
    BenchmarkResult,
    EvaluationResult,
    FrameCost,
    ProfileResult,
    Result,
    Size,
    SizeBenchmark,
    StreamScores,
)

NOTHING = "-"


@dataclass
class TextTable:
    """A titled table of text."""

    title: str
    headings: tuple[str, ...]
    rows: list[tuple[str, ...]] = field(default_factory=list)
    note: str = ""

    def add(self, *cells: str) -> None:
        assert len(cells) == len(self.headings), (cells, self.headings)
        self.rows.append(cells)

    def rich(self) -> Group:
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
        for index, heading in enumerate(self.headings):
            # Names and headings wrap where the terminal is narrow, figures never do.
            justify: Literal["left", "right"] = "right" if index else "left"
            width = max(map(len, heading.split() + [row[index] for row in self.rows]), default=0) if index else None
            table.add_column(escape(heading), justify=justify, width=width, overflow="fold", vertical="top")
        for row in self.rows:
            table.add_row(*map(escape, row))
        note = [Text(f"{self.note}\n", style="dim")] if self.note else []
        return Group(Text(self.title, style="bold"), table, *note)

    def markdown(self) -> str:
        lines = [self.headings, ("---",) + ("---:",) * (len(self.headings) - 1), *self.rows]
        body = "\n".join("| " + " | ".join(line) + " |" for line in lines)
        return f"**{self.title}**\n\n{body}\n" + (f"\n{self.note}\n" if self.note else "")

    def html(self) -> str:
        def row(cells: tuple[str, ...], tag: str) -> str:
            return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"

        rows = "\n".join(row(cells, "td") for cells in self.rows)
        note = f"<p class=note>{html.escape(self.note)}</p>" if self.note else ""
        head = row(self.headings, "th")
        return f"<h3>{html.escape(self.title)}</h3><table><thead>{head}</thead><tbody>{rows}</tbody></table>{note}"


def result_tables(result: Result) -> list[TextTable]:
    """The tables of any result."""
    if isinstance(result, EvaluationResult):
        return evaluation_tables(result)
    if isinstance(result, BenchmarkResult):
        return [table for run in result.sizes for table in benchmark_tables(result, run)]
    if isinstance(result, AblationResult):
        return ablation_tables(result)
    assert isinstance(result, ProfileResult)
    return [profile_table(result)]


def evaluation_tables(result: EvaluationResult) -> list[TextTable]:
    """Base beside stream; IoU of each class; accuracy by distance from the last key frame; the paper's protocol."""
    base, stream = result.base, result.stream
    title = f"{result.model} on {result.data} {result.split}, {size_text(result.size)}, {stream.frames} frames"
    motion = ", ".join(f"{name} on {count}" for name, count in result.motion.items())
    note = f"{result.settings}; {result.runtime}; motion: {motion} frames"
    if result.truth_consistency is not None:
        note += f"; the labels' own temporal consistency is {result.truth_consistency:.2f} %"
    main = TextTable(title + _interrupted(result), ("", "base", "stmg", "change"), note=note)
    _add_accuracies(main, base, stream)
    _add_costs(main, base.cost, stream.cost)
    for whole, part in zip(base.levels, stream.levels, strict=True):
        main.add(f"{part.level} frames", number(whole.share, 0, " %"), number(part.share, 0, " %"), "")
    if stream.kept_blocks is not None:
        main.add("blocks run on partial frames", "", number(stream.kept_blocks, 0, " %"), "")
    tables = [main]
    if stream.miou is not None:
        tables += [_class_table(base, stream), _distance_table(base, stream)]
    if result.paper_protocol is not None:
        pairs = result.paper_protocol
        title = f"The paper's protocol: {pairs.frames} labeled frames, each given the one before"
        table = TextTable(title, ("mIoU", "base", "stmg", "change"))
        cells = (number(pairs.base_miou), number(pairs.miou), change(pairs.miou, pairs.base_miou))
        table.add(f"{pairs.level} frames", *cells)
        tables.append(table)
    return tables


def _add_accuracies(table: TextTable, base: StreamScores, stream: StreamScores) -> None:
    rows: list[tuple[str, Callable[[StreamScores], float | None]]] = [
        ("mIoU", lambda scores: scores.miou),
        ("boundary IoU", lambda scores: scores.boundary_iou),
        ("temporal consistency", lambda scores: scores.consistency),
        ("agreement with base, pixels", lambda scores: scores.agreement_pixels),
        ("agreement with base, mIoU", lambda scores: scores.agreement_miou),
    ]
    for name, value in rows:
        whole, part = value(base), value(stream)
        if part is not None:
            table.add(name, number(whole, unit=" %"), number(part, unit=" %"), change(part, whole))


def _add_costs(table: TextTable, base: FrameCost | None, stream: FrameCost | None) -> None:
    rows: list[tuple[str, Callable[[FrameCost], int], float]] = [
        ("GMACs per frame", lambda cost: cost.macs, 1e9),
        ("GMACs without head, as in the paper", lambda cost: cost.macs_without_head, 1e9),
        ("M parameters per frame", lambda cost: cost.params, 1e6),
    ]
    for name, value, unit in rows:
        whole, part = (None if cost is None else value(cost) / unit for cost in (base, stream))
        table.add(name, number(whole), number(part), change(part, whole))


def _class_table(base: StreamScores, stream: StreamScores) -> TextTable:
    table = TextTable("IoU of each class", ("class", "base", "stmg", "difference"))
    for whole, part in zip(base.classes, stream.classes, strict=True):
        if whole.iou is not None and part.iou is not None:
            table.add(part.name, number(whole.iou), number(part.iou), f"{part.iou - whole.iou:+.2f}")
    return table


def _distance_table(base: StreamScores, stream: StreamScores) -> TextTable:
    table = TextTable("mIoU by distance from the last key frame", ("frames since", "base", "stmg", "change"))
    for whole, part in zip(base.by_distance, stream.by_distance, strict=True):
        table.add(str(part.distance), number(whole.miou), number(part.miou), change(part.miou, whole.miou))
    return table


def benchmark_tables(result: BenchmarkResult, run: SizeBenchmark) -> list[TextTable]:
    """Accuracy and speed; latency; cost; each level apart: at one size."""
    size = size_text(run.size)
    title = f"{result.model} on {result.source}, {size}, {run.frames} frames, {result.repeats} repeats"
    turns = f"in turns of {run.frames_per_turn} frames; gain is FPS relative to the base on the same runtime"
    note = "; ".join(filter(None, (run.settings, str(result.machine), run.runtime, turns, result.warning)))
    headings = ("", "mIoU", "change", "MACs", "FPS", "gain", "p95 ms")
    speed = TextTable(title + _interrupted(result), headings, note=note)
    latency = TextTable(
        f"Latency, {size}",
        ("", "p50 ms", "p95 ms", "max ms", "slowest frame", "carried frame", "gain range"),
        note="slowest frame (by the fastest of its repeats) and median carried frame: relative to a median base frame",
    )
    reading = "rendering is not counted" if run.read_ms is None else f"reading takes {run.read_ms:.1f} ms"
    cost = TextTable(
        f"Cost of a mean frame, {size}",
        ("", "GMACs", "without head", "M params", "MACs gain", "reached", "peak MB", "total FPS"),
        note=f"{reading}, drawing takes {run.draw_ms:.1f} ms per frame; total: with both",
    )
    levels = TextTable(f"Each level, {size}", ("", "level", "share", "p50 ms", "p95 ms", "max ms"))
    base = run.rows[0]
    for row in run.rows:
        name, timing = row.method.name, row.timing
        milliseconds = (timing.latency.p50_ms, timing.latency.p95_ms, timing.latency.max_ms)
        speed.add(
            name,
            number(row.miou),
            change(row.miou, base.miou),
            _macs_share(timing.cost, base.timing.cost),
            number(timing.fps, 1),
            ratio(timing.gain),
            number(timing.latency.p95_ms, 1),
        )
        latency.add(
            name,
            *(number(ms, 1) for ms in milliseconds),
            ratio(timing.slowest_frame),
            NOTHING if timing.carry_overhead is None else f"{100 * timing.carry_overhead:.1f} %",
            NOTHING if result.repeats == 1 else f"{timing.gain_range[0]:.2f}-{timing.gain_range[1]:.2f}",
        )
        cost.add(
            name,
            *_cost_cells(timing.cost),
            ratio(timing.expected_gain),
            number(timing.gain_reached),
            number(None if row.peak_memory is None else row.peak_memory / 1e6, 0),
            number(timing.end_to_end_fps, 1),
        )
        for at in timing.levels:
            cells = (number(ms) for ms in (at.latency.p50_ms, at.latency.p95_ms, at.latency.max_ms))
            levels.add(name, at.level, number(at.share, 0, " %"), *cells)
    return [speed, latency, cost, levels]


def ablation_tables(result: AblationResult) -> list[TextTable]:
    """In the paper's layout."""
    where = f"{result.model} on {result.data} {result.split}, {size_text(result.size)}, {result.frames} frames"
    note = f"{result.settings}; {result.runtime}; ± is the standard deviation over {result.seeds} seeds"
    if result.base.cost is not None:
        note += f"; MACs are relative to the base network's {result.base.cost.macs / 1e9:.2f} G"
    note += "; key: key frames; blocks: those that ran on partial frames"
    tables = []
    for group in result.tables:
        headings: tuple[str, ...] = ("", "mIoU", "change", "MACs", "params", "key", "blocks")
        timed = any(row.fps is not None for row in group.rows)
        headings += ("FPS", "gain") if timed else ()
        table = TextTable(f"{group.title}: {where}{_interrupted(result)}", headings)
        for row in group.rows:
            table.add(
                row.name,
                number(row.miou) + ("" if row.miou_std is None else f" ± {row.miou_std:.2f}"),
                change(row.miou, result.base.miou),
                _macs_share(row.cost, result.base.cost),
                number(None if row.cost is None else row.cost.params / 1e6, unit=" M"),
                number(row.key_share, 0, " %"),
                number(row.kept_blocks, 0, " %"),
                *((number(row.fps, 1), ratio(row.gain)) if timed else ()),
            )
        tables.append(table)
    if tables:
        tables[-1].note = note  # once for all of them
    return tables


def profile_table(result: ProfileResult) -> TextTable:
    """What each drift budget would do."""
    title = f"{result.source} with {result.model}, {size_text(result.size)}, {result.frames} frames"
    table = TextTable(title, ("drift budget", "key frames", "labels changed", "expected gain"), note=result.verdict)
    for outcome in result.budgets:
        mark = " <" if outcome == result.best else ""
        cells = (number(100 * outcome.key_share, 0, " %"), number(100 * outcome.changed, 2, " %"))
        table.add(f"{outcome.budget:g}{mark}", *cells, ratio(outcome.gain))
    return table


def number(value: float | None, digits: int = 2, unit: str = "") -> str:
    """A figure, or a dash where there is none."""
    return NOTHING if value is None else f"{value:.{digits}f}{unit}"


def ratio(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.2f}x"


def change(value: float | None, base: float | None) -> str:
    """How far a figure is from another, in percent of that."""
    return NOTHING if value is None or not base else f"{100 * (value / base - 1):+.2f} %"


def size_text(size: Size) -> str:
    return f"{size[0]}x{size[1]}"


def _macs_share(cost: FrameCost | None, base: FrameCost | None) -> str:
    return NOTHING if cost is None or base is None or not base.macs else f"{100 * cost.macs / base.macs:.1f} %"


def _cost_cells(cost: FrameCost | None) -> tuple[str, str, str]:
    if cost is None:
        return NOTHING, NOTHING, NOTHING
    return number(cost.macs / 1e9), number(cost.macs_without_head / 1e9), number(cost.params / 1e6)


def _interrupted(result: Result) -> str:
    return ", interrupted" if result.interrupted else ""
