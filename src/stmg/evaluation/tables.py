"""Tables: one form for the screen, Markdown and HTML, so that the same figures are told everywhere."""

from __future__ import annotations

import html
from dataclasses import dataclass, field
from typing import Any

from rich.markup import escape
from rich.table import Table

INTERRUPTED = ", interrupted"
NOTHING = "-"


@dataclass
class Sheet:
    """A titled table of text."""

    title: str
    heads: tuple[str, ...]
    rows: list[tuple[str, ...]] = field(default_factory=list)
    note: str = ""

    def add(self, *cells: str) -> None:
        assert len(cells) == len(self.heads), (cells, self.heads)
        self.rows.append(cells)

    def rich(self) -> Table:
        table = Table(title=escape(self.title), caption=escape(self.note) or None)
        for number, head in enumerate(self.heads):
            table.add_column(escape(head), justify="right" if number else "left")
        for row in self.rows:
            table.add_row(*map(escape, row))
        return table

    def markdown(self) -> str:
        lines = [self.heads, ("---",) + ("---:",) * (len(self.heads) - 1), *self.rows]
        body = "\n".join("| " + " | ".join(line) + " |" for line in lines)
        return f"**{self.title}**\n\n{body}\n" + (f"\n{self.note}\n" if self.note else "")

    def html(self) -> str:
        def row(cells: tuple[str, ...], tag: str) -> str:
            return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"

        rows = "\n".join(row(cells, "td") for cells in self.rows)
        note = f"<p class=note>{html.escape(self.note)}</p>" if self.note else ""
        heads = row(self.heads, "th")
        return f"<h3>{html.escape(self.title)}</h3><table><thead>{heads}</thead><tbody>{rows}</tbody></table>{note}"


def number(value: float | None, digits: int = 2, unit: str = "") -> str:
    """A figure, or a dash where there is none."""
    return NOTHING if value is None else f"{value:.{digits}f}{unit}"


def relative(value: float | None, base: float | None) -> str:
    """How far a figure is from another, in percent of that."""
    return NOTHING if value is None or not base else f"{100 * (value / base - 1):+.2f} %"


def giga(value: float | None) -> str:
    return NOTHING if value is None else f"{value / 1e9:.2f} G"


def mega(value: float | None) -> str:
    return NOTHING if value is None else f"{value / 1e6:.2f} M"


def share(value: float | None, whole: float | None) -> str:
    return NOTHING if value is None or not whole else f"{100 * value / whole:.1f} %"


def evaluation_sheets(told: dict[str, Any]) -> list[Sheet]:
    """What `stmg evaluate` found."""
    base, ours = told["base"], told["ours"]
    where = f"{told['model']} on {told['data']}, {told['size'][0]}x{told['size'][1]}, {ours['frames']} frames"
    where += INTERRUPTED if told.get("interrupted") else ""
    note = f"{told['settings']}; {told['runtime']}"
    main = Sheet(where, ("", "base on every frame", "stmg", "relative"), note=note)
    for name, key in (
        ("mIoU", "miou"),
        ("boundary IoU", "boundary_iou"),
        ("temporal consistency", "consistency"),
        ("agreement with the base, pixels", "agreement_pixels"),
        ("agreement with the base, mIoU", "agreement_miou"),
    ):
        if ours[key] is not None:
            main.add(name, number(base[key], unit=" %"), number(ours[key], unit=" %"), relative(ours[key], base[key]))
    for name, key, shown in (
        ("GMACs a frame", "macs", giga),
        ("GMACs without the head, as the paper counts", "macs_without_head", giga),
        ("parameters a frame", "params", mega),
    ):
        main.add(name, shown(base[key]), shown(ours[key]), relative(ours[key], base[key]))
    for level, part in ours["levels"].items():
        main.add(f"{level} frames", number(base["levels"][level], 0, " %"), number(part, 0, " %"), "")
    if ours["blocks_kept"] is not None:
        main.add("blocks kept on partial frames", "", number(ours["blocks_kept"], 0, " %"), "")
    sheets = [main]
    if ours["miou"] is not None:
        classes = Sheet("IoU of each class", ("class", "base", "stmg", "difference"))
        for name, value in ours["iou"].items():
            if value is not None and base["iou"][name] is not None:
                before = base["iou"][name]
                classes.add(name, number(before), number(value), f"{value - before:+.2f}")
        distance = Sheet("mIoU by distance from the last key frame", ("frames since", "base", "stmg", "relative"))
        for row, other in zip(ours["by_distance"], base["by_distance"], strict=True):
            cells = (number(other["miou"]), number(row["miou"]), relative(row["miou"], other["miou"]))
            distance.add(str(row["distance"]), *cells)
        sheets += [classes, distance]
    fields = ", ".join(f"{name} on {count}" for name, count in told["motion"].items())
    main.note += f"; motion: {fields} frames"
    if told.get("truth_consistency") is not None:
        main.note += f"; the truth's own temporal consistency is {told['truth_consistency']:.2f} %"
    if told.get("paper_protocol") is not None:
        pairs = told["paper_protocol"]
        title = f"The paper's protocol: {pairs['frames']} labelled frames, each given the one before"
        paper = Sheet(title, ("", "base", "stmg", "relative"))
        cells = (number(pairs["base_miou"]), number(pairs["miou"]), relative(pairs["miou"], pairs["base_miou"]))
        paper.add(f"{pairs['level']} frames", *cells)
        sheets.append(paper)
    return sheets


def benchmark_sheets(told: dict[str, Any]) -> list[Sheet]:
    """What `stmg benchmark` found: accuracy and speed, cost, and each level apart, for each size."""
    sheets = []
    for run in told["sizes"]:
        size = f"{run['size'][0]}x{run['size'][1]}"
        title = f"{told['model']} on {told['source']}, {size}, {run['frames']} frames, {told['repeats']} repeats"
        turns = f"in turns of {run['turn']} frames; gain is of the same repeat, beside it the least and the most"
        heads = ("", "mIoU", "relative", "MACs", "FPS", "gain", "spread", "p50 ms", "p95 ms", "max ms")
        note = f"{run['settings']}; {told['machine_line']}; {run['runtime']}; {turns}"
        note += f"; {told['warning']}" if told.get("warning") else ""
        speed = Sheet(title, heads, note=note)
        read = "frames are rendered, not read" if run["read_ms"] is None else f"reading takes {run['read_ms']:.1f} ms"
        reading = f"{read}, drawing {run['draw_ms']:.1f} ms a frame"
        cost = Sheet(
            f"Cost of a mean frame, {size}",
            (
                "",
                "GMACs",
                "without head",
                "params",
                "gain the MACs promise",
                "kept",
                "a carried frame / base",
                "slowest frame / base",
                "peak memory",
                "FPS with reading and drawing",
            ),
            note=f"{reading}; the slowest frame by the fastest of its repeats, against a median frame of the base",
        )
        levels = Sheet(f"Each level apart, {size}", ("", "level", "share", "p50 ms", "p95 ms", "max ms"))
        base = next(iter(run["contenders"].values()))
        for name, row in run["contenders"].items():
            speed.add(
                name,
                number(row.get("miou")),
                relative(row.get("miou"), base.get("miou")),
                share(row["macs"], base["macs"]),
                number(row["fps"], 1),
                f"{row['gain']:.2f}x",
                NOTHING if told["repeats"] == 1 else f"{row['gain_spread'][0]:.2f} to {row['gain_spread'][1]:.2f}",
                *(number(row[key], 1) for key in ("p50_ms", "p95_ms", "max_ms")),
            )
            memory = NOTHING if row.get("memory") is None else f"{row['memory'] / 1e6:.0f} MB"
            whole = number(row["fps_with_decoding_and_drawing"], 1)
            promised = NOTHING if row["promised"] is None else f"{row['promised']:.2f}x"
            counted = (giga(row["macs"]), giga(row["macs_without_head"]), mega(row["params"]))
            kept = number(row["kept_promise"], 2)
            overhead = NOTHING if row.get("overhead") is None else f"{row['overhead']:.1%}"
            cost.add(name, *counted, promised, kept, overhead, f"{row['slowest_against_base']:.2f}x", memory, whole)
            for level, at in row["levels"].items():
                cells = (number(at[key], 2) for key in ("p50_ms", "p95_ms", "max_ms"))
                levels.add(name, level, number(at["share"], 0, " %"), *cells)
        sheets += [speed, cost, levels]
    return sheets


def ablation_sheets(told: dict[str, Any]) -> list[Sheet]:
    """What `stmg ablate` found, in the paper's layout."""
    sheets = []
    base = told["base"]
    note = f"{told['settings']}; {told['runtime']}; ± is the deviation over {told['seeds']} draws"
    where = f"{told['data']}, {told['size'][0]}x{told['size'][1]}, {told['frames']} frames"
    for title, rows in told["tables"].items():
        title += f": {told['model']} on {where}" + (INTERRUPTED if told.get("interrupted") else "")
        heads = ("", "mIoU", "drop", "MACs", "of the base's", "params", "key frames", "blocks kept")
        timed = any("fps" in row for row in rows)
        sheet = Sheet(title, (*heads, "FPS", "gain") if timed else heads, note=note)
        for row in rows:
            deviation = f" ± {row['deviation']:.2f}" if row["deviation"] is not None else ""
            sheet.add(
                row["name"],
                number(row["miou"]) + deviation,
                relative(row["miou"], base["miou"]),
                giga(row["macs"]),
                share(row["macs"], base["macs"]),
                mega(row["params"]),
                number(row["key"], 0, " %"),
                number(row["kept"], 0, " %"),
                *((number(row["fps"], 1), f"{row['gain']:.2f}x") if timed else ()),
            )
        sheets.append(sheet)
    return sheets


def profile_sheets(told: dict[str, Any]) -> list[Sheet]:
    """What `stmg profile` found."""
    title = f"{told['source']} with {told['model']}, {told['size'][0]}x{told['size'][1]}, {told['frames']} frames"
    heads = ("drift budget", "key frames", "labels changed", "speed-up to expect")
    sheet = Sheet(title, heads, note=told["verdict"])
    for row in told["chances"]:
        mark = " <" if row["budget"] == told["chosen"] else ""
        cells = (number(100 * row["key_share"], 0, " %"), number(100 * row["changed"], 2, " %"))
        sheet.add(f"{row['budget']:g}{mark}", *cells, f"{row['speed_up']:.2f}x")
    return [sheet]
