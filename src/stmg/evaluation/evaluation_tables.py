"""The tables of an evaluation: the base network beside each mode, classes, distances, the paper's protocol."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from stmg.evaluation.results import EvaluationResult
from stmg.evaluation.rows import Row
from stmg.evaluation.text_table import (
    NOT_COUNTED,
    NOTHING,
    TextTable,
    change,
    gmacs,
    gmacs_without_head,
    make_table,
    mark_interrupted,
    million_params,
    number,
)
from stmg.evaluation.way import format_size
from stmg.streaming.schedulers import Level
from stmg.streaming.settings import Mode

DISTANCES: dict[Mode, tuple[str, str]] = {
    "online": ("Online: mIoU by distance from the last key frame", "frames since"),
    "offline": ("Offline: mIoU by distance to the nearer anchor", "frames to it"),
    "realtime": ("mIoU by age of the anchor", "frames since"),
}


def evaluation_tables(result: EvaluationResult) -> list[TextTable]:
    """Base beside each mode; IoU of each class; accuracy by distance from the computed frame; the paper's protocol."""
    streams = [row for row in result.modes if row.way.kind != "copied-labels"]
    realtime = result.modes[0].way.mode == "realtime"
    tables = [_realtime_table(result) if realtime else _main_table(result)]
    if result.stream.miou is not None:
        tables.append(_class_table(result.base, streams))
        tables += [_distance_table(row) for row in streams]
    if result.paper_protocol is not None:
        pairs = result.paper_protocol
        title = f"The paper's protocol: {pairs.frames} labeled frames, each given the one before"
        table = TextTable(title, ("mIoU", "base", "stmg", "change"))
        cells = (number(pairs.base_miou), number(pairs.miou), change(pairs.miou, pairs.base_miou))
        table.add(f"{pairs.level} frames", *cells)
        tables.append(table)
    return tables


def _title(result: EvaluationResult) -> str:
    where = f"{result.model} on {result.data} {result.split}, {format_size(result.size)}"
    return f"{where}, {result.base.frames} frames{mark_interrupted(result)}"


def _note(result: EvaluationResult) -> str:
    settings = dict.fromkeys(row.settings for row in result.modes if row.settings)
    motion = ", ".join(f"{name} on {count}" for name, count in result.motion.items())
    parts = [*settings, result.runtime, f"motion: {motion} frames"]
    if result.truth_consistency is not None:
        parts.append(f"the labels' own temporal consistency is {result.truth_consistency:.2f} %")
    return "; ".join(parts)


def _main_table(result: EvaluationResult) -> TextTable:
    """A column for the base network and two for each mode: the figure, and its change from the base network's."""
    streams = result.modes
    headings = ("", "base", *(text for row in streams for text in (row.way.mode, "change")))
    table = TextTable(_title(result), headings, note=_note(result))

    def add(name: str, value: Callable[[Row], float | None], unit: str = "", missing: str | None = None) -> None:
        whole, parts = value(result.base), [value(row) for row in streams]
        if missing is not None or any(part is not None for part in parts):
            beside = (cell for part in parts for cell in (number(part, unit=unit), change(part, whole)))
            table.add(name, number(whole, unit=unit, missing=missing or NOTHING), *beside)

    add("mIoU", lambda row: row.miou, " %")
    add("boundary IoU", lambda row: row.boundary_iou, " %")
    add("temporal consistency", lambda row: row.consistency, " %")
    add("agreement with base, pixels", lambda row: row.agreement_pixels, " %")
    add("agreement with base, mIoU", lambda row: row.agreement_miou, " %")
    add("GMACs per frame", gmacs, missing=NOT_COUNTED)
    add("GMACs without head, as in the paper", gmacs_without_head, missing=NOT_COUNTED)
    add("M parameters per frame", million_params, missing=NOTHING)
    for level in Level:
        shares = (cell for row in streams for cell in (number(row.share(level), 0, " %"), ""))
        table.add(f"{level} frames", number(result.base.share(level), 0, " %"), *shares)
    if any(row.kept_blocks is not None for row in streams):
        blocks = (cell for row in streams for cell in (number(row.kept_blocks, 0, " %"), ""))
        table.add("blocks run on partial frames", "", *blocks)
    return table


def _realtime_table(result: EvaluationResult) -> TextTable:
    """A row for each number of intervals that the network takes, and one for copied labels."""
    base, labeled = result.base, result.base.miou is not None
    stale = any(row.stale_share for row in result.modes)

    def accuracy(row: Row) -> float | None:
        return row.miou if labeled else row.agreement_miou

    columns: dict[str, Callable[[Row], str]] = {
        "": lambda row: row.name,
        "mIoU" if labeled else "mIoU with base": lambda row: number(accuracy(row)),
        "change": lambda row: change(accuracy(row), accuracy(base)),
        "consistency": lambda row: number(row.consistency),
        "agreement": lambda row: number(row.agreement_pixels),
        "runs": lambda row: number(row.network_share, 0, " %"),
        "age": lambda row: number(row.mean_distance, 1),
    }
    if stale:
        columns["stale"] = lambda row: number(row.stale_share, 0, " %")
    note = "runs: frames given to the network; age: frames since the one that the labels come from, mean; "
    note += "agreement: pixels as with the network on every frame; copied: the last finished labels"
    note += "; stale: with the labels of another scene; " if stale else "; "
    return make_table(_title(result), (base, *result.modes), columns, note=note + _note(result))


def _class_table(base: Row, streams: Sequence[Row]) -> TextTable:
    """IoU of each class and its difference from the base network's."""
    headings = ("class", "base", *(text for row in streams for text in (_short_name(row), "diff.")))
    table = TextTable("IoU of each class", headings)
    for index, whole in enumerate(base.classes):
        parts = [row.classes[index].iou for row in streams]
        if whole.iou is not None and all(part is not None for part in parts):
            cells = (text for part in parts if part is not None for text in (number(part), f"{part - whole.iou:+.2f}"))
            table.add(whole.name, number(whole.iou), *cells)
    return table


def _distance_table(row: Row) -> TextTable:
    title, heading = DISTANCES[row.way.mode]
    if row.way.intervals is not None:
        title = f"{row.name.capitalize()}: {title}"
    table = TextTable(title, (heading, "share", "base", row.way.mode, "change"))
    for each in row.by_distance:
        figures = (number(each.base_miou), number(each.miou), change(each.miou, each.base_miou))
        table.add(str(each.distance), number(each.share, 0, " %"), *figures)
    return table


def _short_name(row: Row) -> str:
    return row.way.mode if row.way.intervals is None else f"L={row.way.intervals}"
