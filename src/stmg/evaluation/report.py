"""Report: one page, whole in itself, from what `evaluate`, `benchmark`, `ablate` and `profile` left behind."""

from __future__ import annotations

import base64
import html
import json
from pathlib import Path
from typing import Any

from stmg.evaluation import figures
from stmg.evaluation.tables import (
    Sheet,
    ablation_sheets,
    benchmark_sheets,
    evaluation_sheets,
    number,
    profile_sheets,
    relative,
    share,
)
from stmg.machine import machine_line

KINDS = {
    "evaluation": evaluation_sheets,
    "benchmark": benchmark_sheets,
    "ablation": ablation_sheets,
    "profile": profile_sheets,
}
TITLES = {
    "evaluation": "Accuracy over time",
    "benchmark": "Speed, cost and rivals",
    "ablation": "Ablations",
    "profile": "How much of a video repeats",
}
STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #22262b; max-width: 1080px; margin: 2.5em auto; padding: 0 1.2em; }
h1 { font-size: 1.7em; } h2 { margin-top: 2.2em; border-bottom: 1px solid #d8dce1; } h3 { margin: 1.6em 0 .4em; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; display: block; overflow-x: auto; }
th, td { padding: .25em .8em; text-align: right; border-bottom: 1px solid #eceef1; white-space: nowrap; }
th { white-space: normal; vertical-align: bottom; }
th:first-child, td:first-child { text-align: left; } thead th { border-bottom: 1px solid #9aa1ab; }
img { max-width: 100%; } figure { margin: 1em 0; } figcaption, .note { color: #5b636e; font-size: .92em; }
code { background: #f3f4f6; padding: .1em .35em; border-radius: 3px; }
"""


def read_runs(folders: list[Path]) -> list[tuple[str, dict[str, Any], Path]]:
    """Kind, figures and folder of every result found."""
    found = []
    for folder in folders:
        here = [folder] if folder.is_file() else [folder / f"{kind}.json" for kind in KINDS]
        present = [path for path in here if path.is_file()]
        if not present:
            raise ValueError(f"{folder} holds no result; stmg evaluate, benchmark, ablate and profile leave some")
        for path in present:
            try:
                told = json.loads(path.read_text())
            except json.JSONDecodeError as error:
                raise ValueError(f"{path} is damaged: {error}") from None
            if told.get("kind") not in KINDS:
                raise ValueError(f"{path} is no result of stmg evaluate, benchmark, ablate or profile")
            found.append((told["kind"], told, path.parent))
    return found


def page(runs: list[tuple[str, dict[str, Any], Path]]) -> str:
    """The report as HTML."""
    parts = ["<h1>stmg: what was gained and what was lost</h1>"]
    parts.append("<ul>" + "".join(f"<li>{html.escape(line)}</li>" for line in summary(runs)) + "</ul>")
    for kind in KINDS:
        mine = [(told, folder) for each, told, folder in runs if each == kind]
        if not mine:
            continue
        parts.append(f"<h2>{TITLES[kind]}</h2>")
        for told, folder in mine:
            parts.append(f"<p class=note>{html.escape(machine_line(told['machine']))}<br>")
            parts.append(f"<code>{html.escape(told['command'])}</code></p>")
            parts += [sheet.html() for sheet in KINDS[kind](told)]
            parts += [_figure(data, caption) for data, caption in pictures(kind, told, folder)]
    head = f"<meta charset=utf-8><title>stmg report</title><style>{STYLE}</style>"
    return f"<!doctype html><html lang=en><head>{head}</head><body>{''.join(parts)}</body></html>"


def summary(runs: list[tuple[str, dict[str, Any], Path]]) -> list[str]:
    """Each result in a line."""
    lines = []
    for kind, told, _ in runs:
        if kind == "evaluation":
            base, ours = told["base"], told["ours"]
            judged = "miou" if ours["miou"] is not None else "agreement_miou"
            lost = f"{number(ours[judged])} instead of {number(base[judged])} ({relative(ours[judged], base[judged])})"
            cost = f"at {share(ours['macs'], base['macs'])} of the MACs"
            lines.append(f"{told['model']} on {told['data']}, {told['settings']}: mIoU {lost} {cost}")
        for run in told["sizes"] if kind == "benchmark" else ():
            base, ours = (run["contenders"][name] for name in ("base on every frame", "stmg"))
            fps = f"{number(ours['fps'], 1)} frames a second instead of {number(base['fps'], 1)} ({ours['gain']:.2f}x)"
            lines.append(f"{told['model']} on {told['source']}, {run['size'][0]}x{run['size'][1]}: {fps}")
        if kind == "profile":
            lines.append(f"{told['source']}: {told['verdict']}")
    return lines


def pictures(kind: str, told: dict[str, Any], folder: Path) -> list[tuple[bytes, str]]:
    """PNGs of a result and what they show: drawn from its figures, or kept in its folder."""
    drawn: list[tuple[bytes, str]] = []
    if kind == "evaluation":
        drawn += _evaluation(told)
    if kind == "benchmark":
        for run in told["sizes"]:
            drawn += _benchmark(run)
    if kind == "profile":
        drawn.append((_profile(told), "Distortion of each frame against the one before, after motion."))
    for name, caption in told.get("pictures", {}).items():
        path = folder / name
        if path.is_file():
            drawn.append((path.read_bytes(), caption))
    return drawn


def _evaluation(told: dict[str, Any]) -> list[tuple[bytes, str]]:
    base, ours = told["base"], told["ours"]
    drawn = []
    if ours["miou"] is not None:
        names = [name for name, value in ours["iou"].items() if value is not None and base["iou"][name] is not None]
        bars = figures.class_bars(names, [base["iou"][name] for name in names], [ours["iou"][name] for name in names])
        drawn.append((bars, "IoU of each class."))
        drawn.append((figures.by_distance(ours["by_distance"], base["by_distance"]), "What is lost after a key frame."))
    pruned = figures.pruning_against_distortion(told["frames"])
    if pruned is not None:
        drawn.append((pruned[0], "Blocks pruned against distortion, partial frames (the paper's figure 8)."))
    return drawn


def _benchmark(run: dict[str, Any]) -> list[tuple[bytes, str]]:
    rows = run["contenders"]
    size = f"{run['size'][0]}x{run['size'][1]}"
    drawn = []
    points = {name: (row["miou"], row["fps"]) for name, row in rows.items() if row.get("miou") is not None}
    if len(points) > 2:
        caption = f"Accuracy against speed at {size}, with the front of what nothing beats in both (figure 2)."
        drawn.append((figures.pareto(points), caption))
    if run.get("latencies"):
        drawn.append((figures.latency(run["latencies"], run["frame_levels"]), f"Latency of each frame at {size}."))
    return drawn


def _profile(told: dict[str, Any]) -> bytes:
    return figures.curve(told["distortion"], "distortion")


def _figure(data: bytes, caption: str) -> str:
    source = base64.b64encode(data).decode()
    text = html.escape(caption)
    return f'<figure><img alt="{text}" src="data:image/png;base64,{source}"><figcaption>{text}</figcaption></figure>'


def markdown(runs: list[tuple[str, dict[str, Any], Path]]) -> str:
    """The tables alone, each after the command and the machine that it comes from."""
    parts: list[str] = []
    for kind, told, _ in runs:
        sheets: list[Sheet] = KINDS[kind](told)
        parts.append(f"`{told['command']}` ({machine_line(told['machine'])})\n")
        parts += [sheet.markdown() for sheet in sheets]
    return "\n".join(parts)
