"""Drawing: the colors and axes that all plots share."""

from __future__ import annotations

import io
from typing import Any, NamedTuple

from stmg.errors import MissingPackageError, install_command

try:
    from matplotlib.figure import Figure
except ImportError:
    raise MissingPackageError(f"plots need matplotlib: {install_command('evaluate')}") from None

BASE_COLOR, PAPER_COLOR = "#8a8f98", "#b08a2e"
MODE_COLORS = {"online": "#c8443a", "offline": "#3a6ea5", "realtime": "#4f9d69"}
COLORS = ("#7b5ea7", "#2f2f2f", "#c77d2e", "#d98cb3", "#6bb5c9", "#8a6d3b", "#9a9a3c", "#5c7a99")


class Plot(NamedTuple):
    """A picture drawn from the figures of a result."""

    file: str
    caption: str
    png: bytes


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
