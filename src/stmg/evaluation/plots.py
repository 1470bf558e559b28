"""Plots of results, as PNG files in memory: accuracy against speed, latency, classes, distances, trade-offs."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from stmg.errors import explain_missing
from stmg.evaluation.fronts import Point, correlation, group_ways, pareto_front, pruning_points
from stmg.evaluation.results import BenchmarkResult, EvaluationResult, Result, SizeBenchmark, TuneResult
from stmg.evaluation.rows import FrameRecord, Row, percent_change
from stmg.evaluation.way import BASE, ONLINE, Way, format_size
from stmg.outputs.timeline import LEVEL_COLORS
from stmg.streaming.motion import DIS_LEVELS

with explain_missing("matplotlib", why="plots need matplotlib", extra="evaluate"):
    from matplotlib.figure import Figure

BASE_COLOR, PAPER_COLOR = "#8a8f98", "#b08a2e"
MODE_COLORS = {"online": "#c8443a", "offline": "#3a6ea5", "realtime": "#4f9d69"}
COLORS = ("#7b5ea7", "#2f2f2f", "#c77d2e", "#d98cb3", "#6bb5c9", "#8a6d3b", "#9a9a3c", "#5c7a99")
MARKERS = dict(zip(DIS_LEVELS, "osDv", strict=True))
PAPER_POINTS = {
    "DDRNet-39": (80.3, 22.1),
    "STMG-DDR39": (79.1, 32.6),
    "DDRNet-23-slim": (77.6, 108.2),
    "STMG-DDR23-slim": (76.2, 116.0),
}
"""Reported in the paper for Cityscapes: mIoU, and FPS on its GPU."""


class Plot(NamedTuple):
    """A picture drawn from the figures of a result."""

    file: str
    caption: str
    png: bytes


def draw_plots(result: Result) -> list[Plot]:
    """All plots of a result; ablations have none."""
    if isinstance(result, EvaluationResult):
        return evaluation_plots(result)
    if isinstance(result, BenchmarkResult):
        return [plot for run in result.sizes for plot in benchmark_plots(run)]
    if isinstance(result, TuneResult):
        return tune_plots(result)
    return []


def benchmark_plots(run: SizeBenchmark) -> list[Plot]:
    size = format_size(run.size)
    plots = []
    scored = [row for row in run.rows if row.miou is not None]
    if len(scored) > 2:
        caption = f"Accuracy against speed at {size}, with the front of what nothing beats in both (figure 2)."
        plots.append(Plot(f"pareto-{size}.png", caption, plot_pareto(scored)))
        caption = f"Loss of mIoU against gain in FPS at {size}, both relative to the base on the same runtime."
        plots.append(Plot(f"gain-{size}.png", caption, plot_gains(scored)))
    latency = plot_latency([row for row in run.rows if row.latencies])
    return [*plots, Plot(f"latency-{size}.png", f"Latency of each frame at {size}.", latency)]


def plot_latency(rows: Sequence[Row]) -> bytes:
    """Milliseconds of each frame; dots show the levels of the stream."""
    figure, axes = make_figure((10, 3.6))
    for row in rows:
        color = MODE_COLORS.get(row.way.kind, BASE_COLOR)
        axes.plot(row.latencies, color=color, linewidth=0.8, label=row.way.name)
        for level, at in LEVEL_COLORS.items() if row.way == ONLINE else ():
            indices = [index for index, each in enumerate(row.frame_levels) if each is level]
            if indices:
                values = [row.latencies[index] for index in indices]
                axes.scatter(indices, values, s=9, color=at, label=level, zorder=3)
    axes.set(xlabel="frame", ylabel="latency (ms)", ylim=(0, None))
    axes.legend(frameon=False, ncols=5, loc="lower right", bbox_to_anchor=(1, 1))
    return to_png(figure)


def plot_pareto(rows: Sequence[Row]) -> bytes:
    """mIoU against FPS, with the Pareto front; the paper's points beside it.

    One way at several strides or budgets is one line. Exports have no baselines of their own: an arrow leads from their
    base to each mode.
    """
    figure = Figure(figsize=(12, 6), layout="constrained")
    measured, reported = figure.subplots(1, 2, width_ratios=(1.6, 1))
    points = {row.way: (row.miou, row.fps) for row in rows if row.miou is not None}
    own = {way: point for way, point in points.items() if way.runtime is None}
    front = [own[way] for way in pareto_front(own)]
    measured.plot([fps for _, fps in front], [miou for miou, _ in front], color="#d5d5d5", lw=6, zorder=1)
    colors = iter(COLORS * len(own))
    for family in group_ways(own):
        kind = family[0].kind
        color = _color(kind) or next(colors)
        across, up = [own[way][1] for way in family], [own[way][0] for way in family]
        size = 7 if kind in MODE_COLORS else 5
        measured.plot(across, up, "o-", color=color, label=family[0].family, markersize=size, zorder=3)
        for way in family:
            position = own[way][::-1]
            text = _detail(way)
            measured.annotate(text, position, textcoords="offset points", xytext=(5, 5), fontsize=8, color=color)
    exports = [way for way in points if way.kind in MODE_COLORS and way.runtime is not None]
    for index, way in enumerate(exports):
        start, end = points[way.reference], points[way]
        arrow = {"arrowstyle": "->", "color": MODE_COLORS[way.kind], "linestyle": "--"}
        measured.annotate("", end[::-1], start[::-1], arrowprops=arrow)
        offset = (8, 10 + 11 * index)
        measured.annotate(way.engine, end[::-1], textcoords="offset points", xytext=offset, fontsize=8)
    measured.set(xlabel="FPS, measured here", ylabel="mIoU (%)", title="measured")
    measured.legend(frameon=False, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=2)
    for name, (miou, fps) in PAPER_POINTS.items():
        reported.scatter(fps, miou, color=PAPER_COLOR, s=24, zorder=3)
        reported.annotate(name, (fps, miou), textcoords="offset points", xytext=(-40, 6), fontsize=8)
    reported.set(xlabel="FPS, the paper's GPU", title="as the paper reports it, Cityscapes")
    for axes in (measured, reported):
        axes.grid(alpha=0.25)
        axes.margins(0.12)
        axes.spines[["top", "right"]].set_visible(False)
    return to_png(figure)


def plot_gains(rows: Sequence[Row]) -> bytes:
    """Change of mIoU against gain in FPS: one line for each way over strides and budgets, hollow on exports."""
    figure, axes = make_figure((9, 5))
    accuracy = {row.way: row.miou for row in rows}
    points: dict[Way, Point] = {}
    for row in rows:
        changed = percent_change(row.miou, accuracy.get(row.way.reference))
        if changed is not None and row.way.kind not in ("base", "other-model"):
            points[row.way] = (changed, row.gain)
    axes.axhline(0, color=BASE_COLOR, linewidth=0.8)
    colors = iter(COLORS * len(points))
    families: dict[str, str] = {}
    for family in group_ways(points):
        first = family[0]
        color = families.setdefault(first.family, _color(first.kind) or next(colors))
        across, up = [points[way][1] for way in family], [points[way][0] for way in family]
        fill = color if first.runtime is None else "white"
        label = ", ".join(filter(None, (first.family, first.engine)))
        axes.plot(across, up, "o-", color=color, markerfacecolor=fill, label=label)
        for way, x, y in zip(family, across, up, strict=True):
            axes.annotate(_detail(way), (x, y), textcoords="offset points", xytext=(5, 5), fontsize=8, color=color)
    axes.set(xlabel="FPS relative to the base", ylabel="change of mIoU (%)")
    axes.legend(frameon=False, fontsize=8)
    return to_png(figure)


def _color(kind: str) -> str | None:
    """The color of the base and of each mode; None for others."""
    return BASE_COLOR if kind == "base" else MODE_COLORS.get(kind)


def _detail(way: Way) -> str:
    """The label of a way among the others of its line."""
    if way.kind in MODE_COLORS:
        return "as shipped" if way.budget is None else f"{way.budget:g}"
    return "" if way.stride is None else f"{way.stride}"


def evaluation_plots(result: EvaluationResult) -> list[Plot]:
    streams = [mode for mode in result.modes if mode.way.kind != "copied-labels"]
    plots = []
    if result.stream.miou is not None:
        plots.append(Plot("classes.png", "IoU of each class.", plot_classes(result.base, streams)))
        caption = (
            "Accuracy by distance from the frame that labels come from; thin: the base network on the same frames."
        )
        plots.append(Plot("distance.png", caption, plot_distances(streams)))
    pruned = plot_pruning(result.frames)
    if pruned is not None:
        caption = "Blocks pruned against distortion, partial frames (the paper's figure 8)."
        plots.append(Plot("pruning.png", caption, pruned))
    return plots


def plot_classes(base: Row, modes: Sequence[Row]) -> bytes:
    """IoU of each class, the base network beside each mode."""
    names = [each.name for each in base.classes if each.iou is not None]
    figure, axes = make_figure((10, 4))
    positions = np.arange(len(names))
    width = 0.8 / (1 + len(modes))
    columns = [(BASE.name, BASE_COLOR, base), *((mode.name, MODE_COLORS[mode.way.mode], mode) for mode in modes)]
    for index, (label, color, scores) in enumerate(columns):
        iou = {each.name: each.iou for each in scores.classes}
        offset = (index - len(modes) / 2) * width
        alpha = _alpha(modes[index - 1]) if index else 1
        heights = [iou[name] or 0 for name in names]
        axes.bar(positions + offset, heights, width, color=color, alpha=alpha, label=label)
    axes.set(xticks=positions, ylabel="IoU (%)", ylim=(0, 100))
    axes.set_xticklabels(names, rotation=30, ha="right")
    axes.legend(frameon=False, ncols=len(columns))
    return to_png(figure)


def plot_distances(modes: Sequence[Row]) -> bytes:
    """mIoU against the distance from the computed frame, and the base network's on the same frames."""
    figure, axes = make_figure((7, 3.6))
    for mode in modes:
        color, alpha = MODE_COLORS[mode.way.mode], _alpha(mode)
        known = [each for each in mode.by_distance if each.miou is not None]
        across = [each.distance for each in known]
        axes.plot(across, [each.miou for each in known], "o-", color=color, alpha=alpha, label=mode.name)
        axes.plot(across, [each.base_miou for each in known], color=color, alpha=alpha, linewidth=0.8)
    axes.set(xlabel="frames from the computed one", ylabel="mIoU (%)")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.legend(frameon=False)
    return to_png(figure)


def plot_pruning(frames: Sequence[FrameRecord]) -> bytes | None:
    """Pruned share against distortion of the partial frames; None if there are too few."""
    points = pruning_points(frames)
    if len(points) < 3:
        return None
    distortion, pruned = np.array(points).T
    figure, axes = make_figure((5, 3.6))
    axes.scatter(distortion, 100 * pruned, s=14, color=MODE_COLORS["online"], alpha=0.6)
    title = f"correlation {correlation(points):.2f}"
    axes.set(xlabel="distortion", ylabel="blocks pruned (%)", title=title)
    return to_png(figure)


def _alpha(mode: Row) -> float:
    """Opacity of a stream: in realtime, paler the longer the network takes."""
    return 1.0 if mode.way.intervals is None else 0.35 + 0.65 / mode.way.intervals


def tune_plots(result: TuneResult) -> list[Plot]:
    caption = "Pixels changed against speed, of every setting tried; a star is the choice, a cross what it measured."
    return [Plot("tradeoff.png", caption, plot_tradeoff(result))]


def plot_tradeoff(result: TuneResult) -> bytes:
    """Settings by mode (color), level of motion (marker) and model (filled: the first)."""
    figure, axes = make_figure((9, 5.2))
    labels = set()
    for outcome in result.outcomes:
        way = outcome.way
        color = _color(way.kind) or BASE_COLOR
        label = f"{way.kind}, {way.motion}" if way.motion else way.name
        first = way.model is None
        axes.scatter(
            outcome.fps,
            100 * (outcome.changed or 0),
            marker=MARKERS.get(way.motion or "", "P"),
            facecolor=color if first else "none",
            edgecolor=color,
            s=34,
            label=None if label in labels else label,
            zorder=3,
        )
        labels.add(label)
    if result.goal.max_change is not None:
        axes.axhline(100 * result.goal.max_change, color="#999999", linestyle="--", label="goal")
    if result.goal.target_fps is not None:
        axes.axvline(result.goal.target_fps, color="#999999", linestyle="--", label="goal")
    for final, marker, label in ((result.best, "*", "chosen"), (result.check, "x", "checked on other frames")):
        if final is not None:
            axes.scatter(
                final.fps, 100 * (final.changed or 0), marker=marker, color="black", s=130, label=label, zorder=4
            )
    axes.set(xlabel="FPS", ylabel="pixels changed (%)", ylim=(0, None), xlim=(0, None))
    axes.legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1, 1))
    return to_png(figure)


def make_figure(size: tuple[float, float]) -> tuple[Any, Any]:
    """A figure and its axes."""
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", alpha=0.25)
    return figure, axes


def to_png(figure: Any) -> bytes:
    data = io.BytesIO()
    figure.savefig(data, format="png", dpi=110)
    return data.getvalue()
