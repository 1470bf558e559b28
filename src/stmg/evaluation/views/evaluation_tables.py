"""Tables of an evaluation: the base network and each mode side by side, classes, distances, the paper's protocol."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from stmg.evaluation.results import EvaluationResult, FrameCost, ModeScores, StreamScores
from stmg.evaluation.views.text_table import (
    NOT_COUNTED,
    NOTHING,
    TextTable,
    change,
    mark_interrupted,
    number,
    size_text,
)
from stmg.streaming.settings import Mode

DISTANCES: dict[Mode, tuple[str, str]] = {
    "online": ("Online: mIoU by distance from the last key frame", "frames since"),
    "offline": ("Offline: mIoU by distance to the nearer anchor", "frames to it"),
    "realtime": ("mIoU by age of the anchor", "frames since"),
}


def evaluation_tables(result: EvaluationResult) -> list[TextTable]:
    """Base beside each mode; IoU of each class; accuracy by distance from what was computed; the paper's protocol."""
    streams = [mode for mode in result.modes if not mode.copied]
    realtime = result.modes[0].mode == "realtime"
    tables = [_realtime_table(result) if realtime else _main_table(result)]
    if result.stream.miou is not None:
        tables.append(_class_table(result.base, streams))
        tables += [_distance_table(mode) for mode in streams]
    if result.paper_protocol is not None:
        pairs = result.paper_protocol
        title = f"The paper's protocol: {pairs.frames} labeled frames, each given the one before"
        table = TextTable(title, ("mIoU", "base", "stmg", "change"))
        cells = (number(pairs.base_miou), number(pairs.miou), change(pairs.miou, pairs.base_miou))
        table.add(f"{pairs.level} frames", *cells)
        tables.append(table)
    return tables


def _title(result: EvaluationResult) -> str:
    where = f"{result.model} on {result.data} {result.split}, {size_text(result.size)}"
    return f"{where}, {result.base.frames} frames{mark_interrupted(result)}"


def _note(result: EvaluationResult) -> str:
    settings = dict.fromkeys(mode.settings for mode in result.modes if mode.settings)
    motion = ", ".join(f"{name} on {count}" for name, count in result.motion.items())
    parts = [*settings, result.runtime, f"motion: {motion} frames"]
    if result.truth_consistency is not None:
        parts.append(f"the labels' own temporal consistency is {result.truth_consistency:.2f} %")
    return "; ".join(parts)


def _main_table(result: EvaluationResult) -> TextTable:
    """A column for the base network, two for each mode: the figure, and how far it is from the base network's."""
    headings = ("", "base", *(text for mode in result.modes for text in (mode.name, "change")))
    table = TextTable(_title(result), headings, note=_note(result))
    streams = [mode.scores for mode in result.modes]

    def add(
        name: str, value: Callable[[StreamScores], float | None], unit: str = "", missing: str | None = None
    ) -> None:
        whole, parts = value(result.base), [value(each) for each in streams]
        if missing is not None or any(part is not None for part in parts):
            table.add(name, number(whole, unit=unit, missing=missing or NOTHING), *_beside(whole, parts, unit))

    add("mIoU", lambda scores: scores.miou, " %")
    add("boundary IoU", lambda scores: scores.boundary_iou, " %")
    add("temporal consistency", lambda scores: scores.consistency, " %")
    add("agreement with base, pixels", lambda scores: scores.agreement_pixels, " %")
    add("agreement with base, mIoU", lambda scores: scores.agreement_miou, " %")
    add("GMACs per frame", _cost(lambda cost: cost.macs / 1e9), missing=NOT_COUNTED)
    add("GMACs without head, as in the paper", _cost(lambda cost: cost.macs_without_head / 1e9), missing=NOT_COUNTED)
    add("M parameters per frame", _cost(lambda cost: cost.params / 1e6), missing=NOTHING)
    for index, whole in enumerate(result.base.levels):
        shares = (cell for each in streams for cell in (number(each.levels[index].share, 0, " %"), ""))
        table.add(f"{whole.level} frames", number(whole.share, 0, " %"), *shares)
    if any(each.kept_blocks is not None for each in streams):
        blocks = (cell for each in streams for cell in (number(each.kept_blocks, 0, " %"), ""))
        table.add("blocks run on partial frames", "", *blocks)
    return table


def _realtime_table(result: EvaluationResult) -> TextTable:
    """A row for each number of intervals that the network takes, and one for the labels copied."""
    labeled = result.base.miou is not None
    stale = any(mode.stale_share for mode in result.modes)
    measure = "mIoU" if labeled else "mIoU with base"
    headings = ("", measure, "change", "consistency", "agreement", "runs", "age", *(("stale",) if stale else ()))
    note = "runs: frames given to the network; age: frames since the one that the labels come from, mean; "
    note += "agreement: pixels as with the network on every frame; copied: the last finished labels"
    note += "; stale: with the labels of another scene; " if stale else "; "
    table = TextTable(_title(result), headings, note=note + _note(result))

    def add(name: str, scores: StreamScores, mode: ModeScores | None) -> None:
        value, base = (each.miou if labeled else each.agreement_miou for each in (scores, result.base))
        table.add(
            name,
            number(value),
            change(value, base),
            number(scores.consistency),
            number(scores.agreement_pixels),
            number(100 if mode is None else mode.network_share, 0, " %"),
            number(0 if mode is None else mode.mean_distance, 1),
            *((number(0 if mode is None else mode.stale_share, 0, " %"),) if stale else ()),
        )

    add("base on every frame", result.base, None)
    for mode in result.modes:
        add(mode.name, mode.scores, mode)
    return table


def _class_table(base: StreamScores, modes: Sequence[ModeScores]) -> TextTable:
    """IoU of each class and how far it is from the base network's."""
    headings = ("class", "base", *(text for mode in modes for text in (_short_name(mode), "diff.")))
    table = TextTable("IoU of each class", headings)
    for index, whole in enumerate(base.classes):
        parts = [mode.scores.classes[index].iou for mode in modes]
        if whole.iou is not None and all(part is not None for part in parts):
            cells = (text for part in parts if part is not None for text in (number(part), f"{part - whole.iou:+.2f}"))
            table.add(whole.name, number(whole.iou), *cells)
    return table


def _distance_table(mode: ModeScores) -> TextTable:
    title, heading = DISTANCES[mode.mode]
    if mode.network_intervals is not None:
        title = f"{mode.name.capitalize()}: {title}"
    table = TextTable(title, (heading, "share", "base", mode.mode, "change"))
    for each in mode.scores.by_distance:
        figures = (number(each.base_miou), number(each.miou), change(each.miou, each.base_miou))
        table.add(str(each.distance), number(each.share, 0, " %"), *figures)
    return table


def _short_name(mode: ModeScores) -> str:
    return mode.mode if mode.network_intervals is None else f"L={mode.network_intervals}"


def _beside(whole: float | None, parts: Sequence[float | None], unit: str) -> list[str]:
    return [cell for part in parts for cell in (number(part, unit=unit), change(part, whole))]


def _cost(value: Callable[[FrameCost], float]) -> Callable[[StreamScores], float | None]:
    return lambda scores: None if scores.cost is None else value(scores.cost)
