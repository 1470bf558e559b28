"""Pictures of what was measured, as PNG files in memory."""

from __future__ import annotations

import io
from typing import Any

import cv2
import numpy as np

from stmg.frames import Image
from stmg.timeline import COLOURS

try:
    from matplotlib.figure import Figure
except ImportError:
    raise ImportError('pictures need matplotlib: pip install "stmg[evaluate]"') from None

BASE, OURS, RIVAL, PAPER = "#8a8f98", "#c8443a", "#3a6ea5", "#b08a2e"
RIVALS = [RIVAL, "#4f9d69", "#7b5ea7", "#2f2f2f", "#c77d2e", "#d98cb3", "#6bb5c9", "#8a6d3b"]
# What the paper reports for Cityscapes: mIoU, FPS on its GPU.
PAPER_POINTS = {
    "DDRNet-39": (80.3, 22.1),
    "STMG-DDR39": (79.1, 32.6),
    "DDRNet-23-slim": (77.6, 108.2),
    "STMG-DDR23-slim": (76.2, 116.0),
}


def class_bars(names: list[str], base: list[float], ours: list[float]) -> bytes:
    """IoU of each class, base beside stmg."""
    figure, axes = _figure((10, 4))
    places = np.arange(len(names))
    axes.bar(places - 0.2, base, 0.4, color=BASE, label="base on every frame")
    axes.bar(places + 0.2, ours, 0.4, color=OURS, label="stmg")
    axes.set(xticks=places, ylabel="IoU (%)", ylim=(0, 100))
    axes.set_xticklabels(names, rotation=30, ha="right")
    axes.legend(frameon=False, ncols=2)
    return _png(figure)


def by_distance(ours: list[dict[str, Any]], base: list[dict[str, Any]]) -> bytes:
    """mIoU against frames since the last key frame, and the base network's on the same frames."""
    figure, axes = _figure((7, 3.6))
    for rows, colour, label in ((base, BASE, "base on the same frames"), (ours, OURS, "stmg")):
        known = [row for row in rows if row["miou"] is not None]
        axes.plot([row["distance"] for row in known], [row["miou"] for row in known], "o-", color=colour, label=label)
    axes.set(xlabel="frames since the last key frame", ylabel="mIoU (%)")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.legend(frameon=False)
    return _png(figure)


def pruning_against_distortion(frames: list[dict[str, Any]]) -> tuple[bytes, float] | None:
    """Pruned share against distortion of the partial frames, and their correlation; None where there are too few."""
    pairs = [
        (row["distortion"], 1 - row["kept"])
        for row in frames
        if row["level"] == "partial" and row["distortion"] is not None and row["kept"] is not None
    ]
    if len(pairs) < 3:
        return None
    distortion, pruned = np.array(pairs).T
    spread = distortion.std() > 0 and pruned.std() > 0
    correlation = float(np.corrcoef(distortion, pruned)[0, 1]) if spread else float("nan")
    figure, axes = _figure((5, 3.6))
    axes.scatter(distortion, 100 * pruned, s=14, color=OURS, alpha=0.6)
    axes.set(xlabel="distortion", ylabel="blocks pruned (%)", title=f"correlation {correlation:.2f}")
    return _png(figure), correlation


def latency(times: dict[str, list[float]], levels: dict[str, list[str]]) -> bytes:
    """Milliseconds of each frame; dots show the level."""
    figure, axes = _figure((10, 3.6))
    colours = [BASE, OURS, RIVAL, PAPER]
    for (name, values), colour in zip(times.items(), colours, strict=False):
        axes.plot(values, color=colour, linewidth=0.8, label=name)
        for level, at in COLOURS.items():
            places = [number for number, seen in enumerate(levels[name]) if seen == level]
            if name == "stmg" and places:
                axes.scatter(places, [values[place] for place in places], s=9, color=at, label=level, zorder=3)
    axes.set(xlabel="frame", ylabel="latency (ms)", ylim=(0, None))
    axes.legend(frameon=False, ncols=5, loc="lower right", bbox_to_anchor=(1, 1))
    return _png(figure)


def pareto(points: dict[str, tuple[float, float]]) -> bytes:
    """mIoU against FPS with the front of those that nothing beats in both; the paper's points apart, marked as such.

    One way at several strides or budgets is one line. Other runtimes ("base, openvino") have no rivals of their own
    here: an arrow leads from their base to their stmg.
    """
    figure = Figure(figsize=(12, 6), layout="constrained")
    measured, reported = figure.subplots(1, 2, width_ratios=(1.6, 1))
    elsewhere = ("base, ", "stmg, ", "the paper's mode, ")
    own = {name: point for name, point in points.items() if not name.startswith(elsewhere)}
    front = front_of(own)
    measured.plot([own[name][1] for name in front], [own[name][0] for name in front], color="#d5d5d5", lw=6, zorder=1)
    rivals = iter(RIVALS * len(own))
    for family, members in _families(own).items():
        colour = OURS if family == "stmg" else BASE if family.startswith("base") else next(rivals)
        across, up = [own[name][1] for name in members], [own[name][0] for name in members]
        measured.plot(across, up, "o-", color=colour, label=family, markersize=7 if colour == OURS else 5, zorder=3)
        for name, detail in members.items():
            measured.annotate(
                detail, own[name][::-1], textcoords="offset points", xytext=(5, 5), fontsize=8, color=colour
            )
    for number, name in enumerate(name for name in points if name.startswith("stmg, ")):
        runtime = name.removeprefix("stmg, ")
        start, end = points[f"base, {runtime}"], points[name]
        arrow = {"arrowstyle": "->", "color": OURS, "linestyle": "--"}
        measured.annotate("", end[::-1], start[::-1], arrowprops=arrow)
        measured.annotate(runtime, end[::-1], textcoords="offset points", xytext=(8, 10 + 11 * number), fontsize=8)
    measured.set(xlabel="FPS, measured here", ylabel="mIoU (%)", title="measured")
    measured.legend(frameon=False, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=2)
    for name, (miou, fps) in PAPER_POINTS.items():
        reported.scatter(fps, miou, color=PAPER, s=24, zorder=3)
        reported.annotate(name, (fps, miou), textcoords="offset points", xytext=(-40, 6), fontsize=8)
    reported.set(xlabel="FPS, the paper's GPU", title="as the paper reports it, Cityscapes")
    for axes in (measured, reported):
        axes.grid(alpha=0.25)
        axes.margins(0.12)
        axes.spines[["top", "right"]].set_visible(False)
    return _png(figure)


def _families(points: dict[str, tuple[float, float]]) -> dict[str, dict[str, str]]:
    """Names of one way of doing it, from slow to fast, each with the stride or the budget that tells it apart."""
    found: dict[str, dict[str, str]] = {}
    for name in sorted(points, key=lambda name: points[name][1]):
        family, _, detail = name.partition(" at " if name.startswith("stmg") else ", every ")
        found.setdefault(family, {})[name] = detail or ("as shipped" if name == "stmg" else "")
    return found


def front_of(points: dict[str, tuple[float, float]]) -> list[str]:
    """Names of the points that no other beats in accuracy and speed, from slow to fast."""
    names = sorted(points, key=lambda name: (-points[name][1], -points[name][0]))
    front: list[str] = []
    best = -np.inf
    for name in names:
        if points[name][0] > best:
            front.append(name)
            best = points[name][0]
    return front[::-1]


def curve(values: list[float], label: str) -> bytes:
    """A value over the frames of a video."""
    figure, axes = _figure((10, 3.2))
    axes.fill_between(range(len(values)), values, color=RIVAL, alpha=0.25)
    axes.plot(values, color=RIVAL, linewidth=0.8)
    axes.set(xlabel="frame", ylabel=label, ylim=(0, None))
    return _png(figure)


def tiles(images: list[Image], columns: int) -> bytes:
    """Pictures of one size in rows."""
    blank = np.full_like(images[0], 255)
    rows = [images[start : start + columns] for start in range(0, len(images), columns)]
    filled = [row + [blank] * (columns - len(row) if len(rows) > 1 else 0) for row in rows]
    sheet = np.vstack([np.hstack(row) for row in filled])
    done, data = cv2.imencode(".png", sheet[:, :, ::-1])
    assert done
    return bytes(data)


def _figure(size: tuple[float, float]) -> tuple[Any, Any]:
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", alpha=0.25)
    return figure, axes


def _png(figure: Any) -> bytes:
    data = io.BytesIO()
    figure.savefig(data, format="png", dpi=110)
    return data.getvalue()
