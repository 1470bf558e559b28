"""Plots of a benchmark: accuracy against speed, loss against gain, and the latency of each frame."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TypeVar

import numpy as np
from matplotlib.figure import Figure

from stmg.evaluation.method import ONLINE, Method
from stmg.evaluation.results import BenchmarkRow, SizeBenchmark
from stmg.evaluation.views.drawing import BASE_COLOR, COLORS, MODE_COLORS, PAPER_COLOR, Plot, make_figure, to_png
from stmg.outputs.timeline import LEVEL_COLORS

PAPER_POINTS = {
    "DDRNet-39": (80.3, 22.1),
    "STMG-DDR39": (79.1, 32.6),
    "DDRNet-23-slim": (77.6, 108.2),
    "STMG-DDR23-slim": (76.2, 116.0),
}
"""What the paper reports for Cityscapes: mIoU, and FPS on its GPU."""

Name = TypeVar("Name", bound=Hashable)
Point = tuple[float, float]
"""mIoU, FPS."""


def benchmark_plots(run: SizeBenchmark) -> list[Plot]:
    size = f"{run.size[0]}x{run.size[1]}"
    plots = []
    scored = [row for row in run.rows if row.miou is not None]
    if len(scored) > 2:
        caption = f"Accuracy against speed at {size}, with the front of what nothing beats in both (figure 2)."
        plots.append(Plot(f"pareto-{size}.png", caption, plot_pareto(scored)))
        caption = f"Loss of mIoU against gain in FPS at {size}, both relative to the base on the same runtime."
        plots.append(Plot(f"gain-{size}.png", caption, plot_gains(scored)))
    latency = plot_latency([row for row in run.rows if row.latencies])
    return [*plots, Plot(f"latency-{size}.png", f"Latency of each frame at {size}.", latency)]


def plot_latency(rows: Sequence[BenchmarkRow]) -> bytes:
    """Milliseconds of each frame; dots show the levels of the stream."""
    figure, axes = make_figure((10, 3.6))
    for row in rows:
        color = MODE_COLORS.get(row.method.kind, BASE_COLOR)
        axes.plot(row.latencies, color=color, linewidth=0.8, label=row.method.name)
        for level, at in LEVEL_COLORS.items() if row.method == ONLINE else ():
            indices = [index for index, each in enumerate(row.levels) if each is level]
            if indices:
                values = [row.latencies[index] for index in indices]
                axes.scatter(indices, values, s=9, color=at, label=level, zorder=3)
    axes.set(xlabel="frame", ylabel="latency (ms)", ylim=(0, None))
    axes.legend(frameon=False, ncols=5, loc="lower right", bbox_to_anchor=(1, 1))
    return to_png(figure)


def plot_pareto(rows: Sequence[BenchmarkRow]) -> bytes:
    """mIoU against FPS with the front of what nothing beats in both; the paper's points apart, marked as such.

    One method at several strides or budgets is one line. Other runtimes have no baselines of their own here: an arrow
    leads from their base to each mode.
    """
    figure = Figure(figsize=(12, 6), layout="constrained")
    measured, reported = figure.subplots(1, 2, width_ratios=(1.6, 1))
    points = {row.method: (row.miou, row.timing.fps) for row in rows if row.miou is not None}
    own = {method: point for method, point in points.items() if method.runtime is None}
    front = [own[method] for method in pareto_front(own)]
    measured.plot([fps for _, fps in front], [miou for miou, _ in front], color="#d5d5d5", lw=6, zorder=1)
    colors = iter(COLORS * len(own))
    for family in group_methods(own):
        kind = family[0].kind
        color = _color(kind) or next(colors)
        across, up = [own[method][1] for method in family], [own[method][0] for method in family]
        size = 7 if kind in MODE_COLORS else 5
        measured.plot(across, up, "o-", color=color, label=family[0].family, markersize=size, zorder=3)
        for method in family:
            position = own[method][::-1]
            text = _detail(method)
            measured.annotate(text, position, textcoords="offset points", xytext=(5, 5), fontsize=8, color=color)
    exports = [method for method in points if method.kind in MODE_COLORS and method.runtime is not None]
    for index, method in enumerate(exports):
        start, end = points[method.reference], points[method]
        arrow = {"arrowstyle": "->", "color": MODE_COLORS[method.kind], "linestyle": "--"}
        measured.annotate("", end[::-1], start[::-1], arrowprops=arrow)
        offset = (8, 10 + 11 * index)
        measured.annotate(method.engine, end[::-1], textcoords="offset points", xytext=offset, fontsize=8)
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


def plot_gains(rows: Sequence[BenchmarkRow]) -> bytes:
    """What is lost against what is gained: one line for each method over strides and budgets, hollow on exports."""
    figure, axes = make_figure((9, 5))
    accuracy = {row.method: row.miou for row in rows}
    points: dict[Method, Point] = {}
    for row in rows:
        base = accuracy.get(row.method.reference)
        if row.miou is not None and base and row.method.kind not in ("base", "other-model"):
            points[row.method] = (100 * (row.miou / base - 1), row.timing.gain)
    axes.axhline(0, color=BASE_COLOR, linewidth=0.8)
    colors = iter(COLORS * len(points))
    families: dict[str, str] = {}
    for family in group_methods(points):
        first = family[0]
        color = families.setdefault(first.family, _color(first.kind) or next(colors))
        across, up = [points[method][1] for method in family], [points[method][0] for method in family]
        fill = color if first.runtime is None else "white"
        label = ", ".join(filter(None, (first.family, first.engine)))
        axes.plot(across, up, "o-", color=color, markerfacecolor=fill, label=label)
        for method, x, y in zip(family, across, up, strict=True):
            axes.annotate(_detail(method), (x, y), textcoords="offset points", xytext=(5, 5), fontsize=8, color=color)
    axes.set(xlabel="FPS relative to the base", ylabel="change of mIoU (%)")
    axes.legend(frameon=False, fontsize=8)
    return to_png(figure)


def group_methods(points: Mapping[Method, Point]) -> list[list[Method]]:
    """Methods that differ in stride or budget alone, each group from slow to fast."""
    groups: dict[tuple[str, str], list[Method]] = {}
    for method in sorted(points, key=lambda method: points[method][1]):
        groups.setdefault((method.family, method.engine), []).append(method)
    return list(groups.values())


def pareto_front(points: Mapping[Name, Point]) -> list[Name]:
    """Of points (mIoU, FPS) those that no other beats in accuracy and speed, from slow to fast."""
    names = sorted(points, key=lambda name: (-points[name][1], -points[name][0]))
    front: list[Name] = []
    best = -np.inf
    for name in names:
        if points[name][0] > best:
            front.append(name)
            best = points[name][0]
    return front[::-1]


def _color(kind: str) -> str | None:
    """The color of what always has the same one."""
    return BASE_COLOR if kind == "base" else MODE_COLORS.get(kind)


def _detail(method: Method) -> str:
    """What tells a method apart from the others of its line."""
    if method.kind in MODE_COLORS:
        return "as shipped" if method.budget is None else f"{method.budget:g}"
    return "" if method.stride is None else f"{method.stride}"
