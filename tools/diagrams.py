"""Drawings of the documentation: the three modes, and the paper's method; `pictures.py` writes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

COMPUTED, CARRIED, LINE, WARM, TEXT = "#00796b", "#b2dfdb", "#546e7a", "#e65100", "#263238"


def draw_modes(path: Path) -> None:
    """Nine frames in each mode: which the network computes, and where the labels of the others come from."""
    figure, axes = plt.subplots(figsize=(9, 5.2))
    rows = (
        (2, "offline", "labels from both sides", (0, 4, 8)),
        (1, "online", "labels from before, frame by frame", (0, 3, 7)),
        (0, "realtime", "network in the background", (0,)),
    )
    for row, name, what, computed in rows:
        y = 2.1 * row
        axes.text(-0.9, y + 0.34, name, ha="right", va="center", fontsize=13, weight="bold", color=TEXT)
        axes.text(-0.9, y - 0.02, what, ha="right", va="center", fontsize=8.5, color=LINE)
        for frame in range(9):
            _box(axes, frame - 0.38, y - 0.2, 0.76, 0.6, COMPUTED if frame in computed else CARRIED)
            color = "white" if frame in computed else TEXT
            axes.text(frame, y + 0.1, str(frame + 1), ha="center", va="center", fontsize=10, color=color)
        if name == "offline":
            for left in (0, 4):
                for frame in range(left + 1, left + 4):
                    _arrow(axes, (left, y + 0.42), (frame, y + 0.42), -0.45)
                    _arrow(axes, (left + 4, y + 0.42), (frame, y + 0.42), 0.45)
        elif name == "online":
            for start, stop in ((0, 3), (3, 7), (7, 9)):
                for frame in range(start + 1, stop):
                    _arrow(axes, (start, y + 0.42), (frame, y + 0.42), -0.45)
        else:
            _draw_background(axes, y)
    axes.text(8.4, -1.32, "time", ha="right", fontsize=9, color=LINE)
    axes.annotate("", (8.5, -1.4), (-0.4, -1.4), arrowprops={"arrowstyle": "->", "color": LINE})
    axes.text(
        -0.38, -1.75, "dark: computed by the network · light: labels warped along the motion", fontsize=9, color=TEXT
    )
    _finish(figure, axes, path, (-4.6, 8.7), (-1.95, 5.6))


def _draw_background(axes: Any, y: float) -> None:
    """Two runs of the network that take three frames each, and what is shown meanwhile."""
    for start in (1, 4):
        _box(axes, start - 0.38, y - 0.86, 3.0, 0.34, WARM)
        axes.text(
            start + 1.12, y - 0.69, f"network on frame {start + 1}", ha="center", va="center", fontsize=8, color="white"
        )
        _arrow(axes, (start, y - 0.22), (start, y - 0.5), 0, WARM)
        _arrow(axes, (start + 2.45, y - 0.5), (start + 3, y - 0.22), 0, WARM)
    for source, frames in ((0, (1, 2, 3)), (1, (4, 5, 6)), (4, (7, 8))):
        for frame in frames:
            _arrow(axes, (source, y + 0.42), (frame, y + 0.42), -0.4)


def draw_method(path: Path) -> None:
    """The paper's figure: two frames, the mask generator, and the network with some of its blocks."""
    figure, axes = plt.subplots(figsize=(9.6, 4.6))
    boxes = {
        "previous frame\n$I_{pre}$": (0, 3.2, CARRIED),
        "current frame\n$I_{cur}$": (0, 1.2, CARRIED),
        "encoder\n$t = Enc_f(I_{pre})$": (2.6, 3.2, "#ffe0b2"),
        "encoder\n$e = Enc_f(I_{cur})$": (2.6, 1.9, "#ffe0b2"),
        "spatial mask\n$m_{sp}$ = ½ − ½ cos(t, e)": (5.4, 3.2, "#ffcc80"),
        "block pruning\n$\\varphi$ = H(t ⊕ e)": (5.4, 1.9, "#ffcc80"),
        "network, open blocks:\n$\\pi(I_{cur})$": (5.4, 0.3, COMPUTED),
        "aggregation\n$m_{sp}\\pi_{cur} + (1-m_{sp})\\pi_{pre}$": (8.5, 1.9, "#b2dfdb"),
        "head\nlabels": (8.5, 0.3, COMPUTED),
        "$d$ = mean of $m_{sp}$\nkey frame if d > threshold": (8.5, 3.2, "#ffcc80"),
    }
    for text, (x, y, color) in boxes.items():
        width = 2.1 if x < 5 else 2.6
        _box(axes, x, y, width, 0.86, color)
        ink = "white" if color == COMPUTED else TEXT
        axes.text(x + width / 2, y + 0.43, text, ha="center", va="center", fontsize=9, color=ink)
    arrows = (
        ((2.1, 3.6), (2.6, 3.6)),
        ((2.1, 1.8), (2.6, 2.2)),
        ((4.7, 3.7), (5.4, 3.7)),
        ((4.7, 2.5), (5.4, 3.3)),
        ((4.7, 3.3), (5.4, 2.6)),
        ((4.7, 2.2), (5.4, 2.2)),
        ((2.1, 1.4), (5.4, 0.7)),
        ((6.7, 1.9), (6.7, 1.16)),
        ((8.0, 3.3), (8.5, 2.6)),
        ((8.0, 3.7), (8.5, 3.7)),
        ((8.0, 0.8), (8.5, 2.0)),
        ((9.8, 1.9), (9.8, 1.16)),
    )
    for start, stop in arrows:
        _arrow(axes, start, stop, 0)
    axes.text(6.85, 1.5, "which blocks run", fontsize=8, color=LINE)
    _finish(figure, axes, path, (-0.2, 11.3), (0.1, 4.3))


def _box(axes: Any, x: float, y: float, width: float, height: float, color: str) -> None:
    style = "round,pad=0,rounding_size=0.08"
    axes.add_patch(FancyBboxPatch((x, y), width, height, boxstyle=style, linewidth=0, facecolor=color))


def _arrow(axes: Any, start: tuple[float, float], stop: tuple[float, float], bend: float, color: str = LINE) -> None:
    connection = f"arc3,rad={bend}"
    axes.add_patch(
        FancyArrowPatch(
            start, stop, connectionstyle=connection, arrowstyle="->", mutation_scale=9, color=color, linewidth=0.9
        )
    )


def _finish(figure: Any, axes: Any, path: Path, across: tuple[float, float], up: tuple[float, float]) -> None:
    axes.set_xlim(*across)
    axes.set_ylim(*up)
    axes.axis("off")
    figure.savefig(path, bbox_inches="tight", metadata={"Date": None})
    plt.close(figure)
