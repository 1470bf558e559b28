"""Report: one page, with its pictures inside, from the results of `evaluate`, `benchmark`, `ablate` and `tune`."""

from __future__ import annotations

import base64
import html
from collections.abc import Sequence

from stmg.evaluation.plots import draw_plots
from stmg.evaluation.results import (
    AblationResult,
    BenchmarkResult,
    EvaluationResult,
    Result,
    SizeBenchmark,
    TuneResult,
)
from stmg.evaluation.rows import Row, percent_of_macs
from stmg.evaluation.tables import result_tables
from stmg.evaluation.text_table import change, number
from stmg.evaluation.way import BASE, OFFLINE, ONLINE, format_size

TITLES: dict[type[Result], str] = {
    EvaluationResult: "Accuracy over time",
    BenchmarkResult: "Speed, cost and baselines",
    AblationResult: "Ablations",
    TuneResult: "Settings for a video",
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


def render_html(results: Sequence[Result]) -> str:
    """The report as an HTML page."""
    parts = ["<h1>stmg: what was gained and what was lost</h1>"]
    parts.append("<ul>" + "".join(f"<li>{html.escape(line)}</li>" for line in summarize(results)) + "</ul>")
    for kind, title in TITLES.items():
        group = [result for result in results if isinstance(result, kind)]
        if group:
            parts.append(f"<h2>{title}</h2>")
        for result in group:
            parts.append(f"<p class=note>{html.escape(str(result.machine))}<br>")
            parts.append(f"<code>{html.escape(result.command)}</code></p>")
            parts += [table.html() for table in result_tables(result)]
            parts += [_render_figure(plot.png, plot.caption) for plot in draw_plots(result)]
            pictures = result.pictures if isinstance(result, EvaluationResult) else ()
            parts += [_render_figure(picture.png, picture.caption) for picture in pictures if picture.png]
    head = f"<meta charset=utf-8><title>stmg report</title><style>{STYLE}</style>"
    return f"<!doctype html><html lang=en><head>{head}</head><body>{''.join(parts)}</body></html>"


def render_markdown(results: Sequence[Result]) -> str:
    """The tables alone, each with the command and the machine above it."""
    parts: list[str] = []
    for result in results:
        parts.append(f"`{result.command}` ({result.machine})\n" if result.command else f"{result.machine}\n")
        parts += [table.markdown() for table in result_tables(result)]
    return "\n".join(parts)


def summarize(results: Sequence[Result]) -> list[str]:
    """A line or so for each result; none for ablations."""
    lines = []
    for result in results:
        if isinstance(result, EvaluationResult):
            lines += [_summarize_evaluation(result, mode) for mode in result.modes]
        elif isinstance(result, BenchmarkResult):
            for run in result.sizes:
                lines += _summarize_benchmark(result, run)
        elif isinstance(result, TuneResult):
            lines.append(f"{result.source}: {result.verdict}")
    return lines


def _summarize_benchmark(result: BenchmarkResult, run: SizeBenchmark) -> list[str]:
    """A line for each mode of the model."""
    where = f"{result.model} on {result.source}, {format_size(run.size)}"
    base = run.row(BASE)
    lines = []
    for row in run.rows:
        if row.way in (ONLINE, OFFLINE):
            base_fps = row.fps / row.gain  # in the same turns
            fps = f"{number(row.fps, 1)} FPS instead of {number(base_fps, 1)} ({row.gain:.2f}x)"
            loss = "" if row.miou is None else f", mIoU {change(row.miou, base.miou)}"
            lines.append(f"{where}, {row.name}: {fps}{loss}")
    for row in run.realtime:
        if row.live is not None and row.way.reference == BASE:
            latency = f"latency {row.live.latency.p95_ms:.1f} ms at p95, anchors {row.live.mean_age:.1f} frames old"
            lines.append(f"{where}, {row.name} at {row.live.rate:g} FPS: {latency}")
    return lines


def _summarize_evaluation(result: EvaluationResult, stream: Row) -> str:
    base = result.base
    labeled = stream.miou is not None
    whole, part = (base.miou, stream.miou) if labeled else (base.agreement_miou, stream.agreement_miou)
    measure = "mIoU" if labeled else "mIoU with the base network's labels"
    how = ", ".join(filter(None, (stream.name, stream.settings)))
    text = f"{result.model} on {result.data} {result.split}, {how}: {measure} {number(part)} instead of "
    text += f"{number(whole)} ({change(part, whole)})"
    macs = percent_of_macs(stream.cost, base.cost)
    if macs is not None:
        text += f" at {macs:.1f} % of the MACs"
    return text


def _render_figure(png: bytes, caption: str) -> str:
    source = base64.b64encode(png).decode()
    text = html.escape(caption)
    return f'<figure><img alt="{text}" src="data:image/png;base64,{source}"><figcaption>{text}</figcaption></figure>'
