"""Plots of results, as PNG files in memory."""

from __future__ import annotations

import io
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from stmg.errors import MissingPackageError
from stmg.evaluation.method import BASE, STMG, Method
from stmg.evaluation.results import (
    BenchmarkResult,
    BenchmarkRow,
    EvaluationResult,
    FrameRecord,
    ProfileResult,
    Result,
    SizeBenchmark,
    StreamScores,
)
from stmg.outputs.timeline import LEVEL_COLORS
from stmg.streaming.schedulers import Level

try:
    from matplotlib.figure import Figure
except ImportError:
    raise MissingPackageError('plots need matplotlib: pip install "stmg[evaluate]"') from None

BASE_COLOR, STMG_COLOR, PAPER_COLOR = "#8a8f98", "#c8443a", "#b08a2e"
COLORS = ("#3a6ea5", "#4f9d69", "#7b5ea7", "#2f2f2f", "#c77d2e", "#d98cb3", "#6bb5c9", "#8a6d3b")
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


class Plot(NamedTuple):
    """A picture drawn from the figures of a result."""

    file: str
    caption: str
    png: bytes


def draw_plots(result: Result) -> list[Plot]:
    """Everything that can be drawn from a result."""
    if isinstance(result, EvaluationResult):
        return _evaluation_plots(result)
    if isinstance(result, BenchmarkResult):
        return [plot for run in result.sizes for plot in _benchmark_plots(run)]
    if isinstance(result, ProfileResult):
        caption = "Distortion of each frame against the one before, after motion."
        return [Plot("distortion.png", caption, plot_curve(result.distortion, "distortion"))]
    return []


def _evaluation_plots(result: EvaluationResult) -> list[Plot]:
    plots = []
    if result.stream.miou is not None:
        plots.append(Plot("classes.png", "IoU of each class.", plot_classes(result.base, result.stream)))
        caption = "Accuracy by distance from the last key frame."
        plots.append(Plot("distance.png", caption, plot_distances(result.base, result.stream)))
    pruned = plot_pruning(result.frames)
    if pruned is not None:
        caption = "Blocks pruned against distortion, partial frames (the paper's figure 8)."
        plots.append(Plot("pruning.png", caption, pruned))
    return plots


def _benchmark_plots(run: SizeBenchmark) -> list[Plot]:
    size = f"{run.size[0]}x{run.size[1]}"
    plots = []
    scored = [row for row in run.rows if row.miou is not None]
    if len(scored) > 2:
        caption = f"Accuracy against speed at {size}, with the front of what nothing beats in both (figure 2)."
        plots.append(Plot(f"pareto-{size}.png", caption, plot_pareto(scored)))
    latency = plot_latency([run.row(BASE), run.row(STMG)])
    return [*plots, Plot(f"latency-{size}.png", f"Latency of each frame at {size}.", latency)]


def plot_classes(base: StreamScores, stream: StreamScores) -> bytes:
    """IoU of each class, base beside stmg."""
    pairs = [
        (part.name, whole.iou, part.iou)
        for whole, part in zip(base.classes, stream.classes, strict=True)
        if whole.iou is not None and part.iou is not None
    ]
    figure, axes = _make_figure((10, 4))
    positions = np.arange(len(pairs))
    axes.bar(positions - 0.2, [pair[1] for pair in pairs], 0.4, color=BASE_COLOR, label=BASE.name)
    axes.bar(positions + 0.2, [pair[2] for pair in pairs], 0.4, color=STMG_COLOR, label=STMG.name)
    axes.set(xticks=positions, ylabel="IoU (%)", ylim=(0, 100))
    axes.set_xticklabels([pair[0] for pair in pairs], rotation=30, ha="right")
    axes.legend(frameon=False, ncols=2)
    return _to_png(figure)


def plot_distances(base: StreamScores, stream: StreamScores) -> bytes:
    """mIoU against frames since the last key frame, and the base network's on the same frames."""
    figure, axes = _make_figure((7, 3.6))
    for scores, color, label in ((base, BASE_COLOR, "base on the same frames"), (stream, STMG_COLOR, "stmg")):
        known = [each for each in scores.by_distance if each.miou is not None]
        axes.plot([each.distance for each in known], [each.miou for each in known], "o-", color=color, label=label)
    axes.set(xlabel="frames since the last key frame", ylabel="mIoU (%)")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.legend(frameon=False)
    return _to_png(figure)


def plot_pruning(frames: Sequence[FrameRecord]) -> bytes | None:
    """Pruned share against distortion of the partial frames; None where there are too few."""
    points = pruning_points(frames)
    if len(points) < 3:
        return None
    distortion, pruned = np.array(points).T
    figure, axes = _make_figure((5, 3.6))
    axes.scatter(distortion, 100 * pruned, s=14, color=STMG_COLOR, alpha=0.6)
    title = f"correlation {correlation(points):.2f}"
    axes.set(xlabel="distortion", ylabel="blocks pruned (%)", title=title)
    return _to_png(figure)


def pruning_points(frames: Sequence[FrameRecord]) -> list[Point]:
    """Distortion and pruned share of each partial frame."""
    return [
        (frame.distortion, 1 - frame.kept_blocks)
        for frame in frames
        if frame.level is Level.PARTIAL and frame.distortion is not None and frame.kept_blocks is not None
    ]


def correlation(points: Sequence[Point]) -> float:
    """Between the two coordinates; NaN if either is always the same."""
    first, second = np.array(points).T
    return float(np.corrcoef(first, second)[0, 1]) if first.std() > 0 and second.std() > 0 else float("nan")


def plot_latency(rows: Sequence[BenchmarkRow]) -> bytes:
    """Milliseconds of each frame; dots show the levels of the stream."""
    figure, axes = _make_figure((10, 3.6))
    for row in rows:
        color = STMG_COLOR if row.method.kind == "stmg" else BASE_COLOR
        axes.plot(row.latencies, color=color, linewidth=0.8, label=row.method.name)
        for level, at in LEVEL_COLORS.items() if row.method.kind == "stmg" else ():
            indices = [index for index, each in enumerate(row.levels) if each is level]
            if indices:
                values = [row.latencies[index] for index in indices]
                axes.scatter(indices, values, s=9, color=at, label=level, zorder=3)
    axes.set(xlabel="frame", ylabel="latency (ms)", ylim=(0, None))
    axes.legend(frameon=False, ncols=5, loc="lower right", bbox_to_anchor=(1, 1))
    return _to_png(figure)


def plot_pareto(rows: Sequence[BenchmarkRow]) -> bytes:
    """mIoU against FPS with the front of what nothing beats in both; the paper's points apart, marked as such.

    One method at several strides or budgets is one line. Other runtimes have no baselines of their own here: an arrow
    leads from their base to their stmg.
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
        color = STMG_COLOR if kind == "stmg" else BASE_COLOR if kind == "base" else next(colors)
        across, up = [own[method][1] for method in family], [own[method][0] for method in family]
        size = 7 if kind == "stmg" else 5
        measured.plot(across, up, "o-", color=color, label=family[0].family, markersize=size, zorder=3)
        for method in family:
            position = own[method][::-1]
            text = _detail(method)
            measured.annotate(text, position, textcoords="offset points", xytext=(5, 5), fontsize=8, color=color)
    exports = [method for method in points if method.kind == "stmg" and method.runtime is not None]
    for index, method in enumerate(exports):
        start, end = points[method.reference], points[method]
        arrow = {"arrowstyle": "->", "color": STMG_COLOR, "linestyle": "--"}
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
    return _to_png(figure)


def group_methods(points: Mapping[Method, Point]) -> list[list[Method]]:
    """Methods that differ in stride or budget alone, each group from slow to fast."""
    groups: dict[str, list[Method]] = {}
    for method in sorted(points, key=lambda method: points[method][1]):
        groups.setdefault(method.family, []).append(method)
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


def plot_curve(values: Sequence[float], label: str) -> bytes:
    """A value over the frames of a video."""
    figure, axes = _make_figure((10, 3.2))
    axes.fill_between(range(len(values)), values, color=COLORS[0], alpha=0.25)
    axes.plot(values, color=COLORS[0], linewidth=0.8)
    axes.set(xlabel="frame", ylabel=label, ylim=(0, None))
    return _to_png(figure)


def _detail(method: Method) -> str:
    """What tells a method apart from the others of its line."""
    if method.kind == "stmg":
        return "as shipped" if method.budget is None else f"{method.budget:g}"
    return "" if method.stride is None else f"{method.stride}"


def _make_figure(size: tuple[float, float]) -> tuple[Any, Any]:
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", alpha=0.25)
    return figure, axes


def _to_png(figure: Any) -> bytes:
    data = io.BytesIO()
    figure.savefig(data, format="png", dpi=110)
    return data.getvalue()
