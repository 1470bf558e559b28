"""Plots of an evaluation: classes, distances, and what was pruned."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stmg.evaluation.method import BASE
from stmg.evaluation.results import EvaluationResult, FrameRecord, ModeScores, StreamScores
from stmg.evaluation.views.drawing import BASE_COLOR, MODE_COLORS, Plot, make_figure, to_png
from stmg.streaming.schedulers import Level

Point = tuple[float, float]


def evaluation_plots(result: EvaluationResult) -> list[Plot]:
    streams = [mode for mode in result.modes if not mode.copied]
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


def plot_classes(base: StreamScores, modes: Sequence[ModeScores]) -> bytes:
    """IoU of each class, the base network beside each mode."""
    names = [each.name for each in base.classes if each.iou is not None]
    figure, axes = make_figure((10, 4))
    positions = np.arange(len(names))
    width = 0.8 / (1 + len(modes))
    columns = [(BASE.name, BASE_COLOR, base), *((mode.name, MODE_COLORS[mode.mode], mode.scores) for mode in modes)]
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


def plot_distances(modes: Sequence[ModeScores]) -> bytes:
    """mIoU against the distance from what was computed, and the base network's on the same frames."""
    figure, axes = make_figure((7, 3.6))
    for mode in modes:
        color, alpha = MODE_COLORS[mode.mode], _alpha(mode)
        known = [each for each in mode.scores.by_distance if each.miou is not None]
        across = [each.distance for each in known]
        axes.plot(across, [each.miou for each in known], "o-", color=color, alpha=alpha, label=mode.name)
        axes.plot(across, [each.base_miou for each in known], color=color, alpha=alpha, linewidth=0.8)
    axes.set(xlabel="frames from the computed one", ylabel="mIoU (%)")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.legend(frameon=False)
    return to_png(figure)


def plot_pruning(frames: Sequence[FrameRecord]) -> bytes | None:
    """Pruned share against distortion of the partial frames; None where there are too few."""
    points = pruning_points(frames)
    if len(points) < 3:
        return None
    distortion, pruned = np.array(points).T
    figure, axes = make_figure((5, 3.6))
    axes.scatter(distortion, 100 * pruned, s=14, color=MODE_COLORS["online"], alpha=0.6)
    title = f"correlation {correlation(points):.2f}"
    axes.set(xlabel="distortion", ylabel="blocks pruned (%)", title=title)
    return to_png(figure)


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


def _alpha(mode: ModeScores) -> float:
    """Realtime is paler the longer the network takes."""
    return 1.0 if mode.network_intervals is None else 0.35 + 0.65 / mode.network_intervals
