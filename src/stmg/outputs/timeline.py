"""Timeline: a plot of a whole run: levels, change, kept blocks and latency over time."""

from __future__ import annotations

import io
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from stmg.errors import explain_missing
from stmg.files import write_atomically
from stmg.outputs.sinks import FileSink
from stmg.streaming.result import FrameResult
from stmg.streaming.schedulers import Level

MAX_COLUMNS = 700  # resolution of the plot
MAX_SPANS = 2 * MAX_COLUMNS
LEVEL_COLORS = {Level.KEY: "#c8443a", Level.PARTIAL: "#f3bd4f", Level.CARRY: "#3a9d8f"}


class Timeline(FileSink):
    """A plot of the whole run, drawn when it is closed.

    At most `MAX_SPANS` spans are kept. In a longer run, neighbors are merged.
    """

    def __init__(self, path: str | Path, title: str = "") -> None:
        super().__init__(path)
        with explain_missing("matplotlib", why="the timeline needs matplotlib", extra="plots"):
            import matplotlib.figure  # noqa: F401  to fail before the run rather than after it
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.title = title
        self._spans: list[Span] = []
        self._newest: Span | None = None
        self._frames_per_span = 1

    def _write(self, result: FrameResult) -> None:
        self.add(Span.from_result(result))

    def add(self, span: Span) -> None:
        """Add the next span."""
        self._newest = span if self._newest is None else self._newest.join(span)
        if self._newest.num_frames < self._frames_per_span:
            return
        self._spans.append(self._newest)
        self._newest = None
        if len(self._spans) == MAX_SPANS:
            self._spans = _join_pairs(self._spans)
            self._frames_per_span *= 2

    def _finish(self) -> None:
        spans = self._spans + ([self._newest] if self._newest else [])
        if spans:
            write_atomically(self.path, _draw(spans, self.title))


def draw_spans(spans: Iterable[Span], path: Path, title: str = "") -> None:
    """Draw the timeline of these spans."""
    timeline = Timeline(path, title)
    for span in spans:
        timeline.add(span)
    timeline.close()


class Span(NamedTuple):
    """Sums and maxima over consecutive frames."""

    time: float | None
    """Time of the first frame."""
    levels: tuple[int, ...]
    """Number of frames of each level."""
    distortion: float
    """Maximum; NaN if no frame had one."""
    drift: float
    """Maximum."""
    kept_blocks: int
    num_blocks: int
    latency_sum: float
    latency_max: float
    measured: float
    """Maximum change that an audit measured, as a share of the pixels; NaN without an audit."""

    @classmethod
    def from_result(cls, result: FrameResult) -> Span:
        levels = tuple(int(result.level is level) for level in Level)
        blocks, latency = (result.kept_blocks, len(result.keep)), result.latency_ms
        measured = math.nan if result.audit is None else result.audit.changed
        return cls(result.time, levels, result.distortion, result.drift, *blocks, latency, latency, measured)

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Span:
        """The span of one record in the format of `Records`."""
        levels = tuple(int(record["level"] == level) for level in Level)
        distortion, audit = record["distortion"], record["audit"]
        return cls(
            record["time"],
            levels,
            math.nan if distortion is None else distortion,
            record["drift"] or 0.0,
            record["kept_blocks"],
            len(record["keep"]),
            record["latency_ms"],
            record["latency_ms"],
            math.nan if audit is None else audit["changed"],
        )

    @property
    def num_frames(self) -> int:
        return sum(self.levels)

    def join(self, later: Span) -> Span:
        return Span(
            self.time,
            tuple(mine + other for mine, other in zip(self.levels, later.levels, strict=True)),
            _maximum(self.distortion, later.distortion),
            _maximum(self.drift, later.drift),
            self.kept_blocks + later.kept_blocks,
            self.num_blocks + later.num_blocks,
            self.latency_sum + later.latency_sum,
            max(self.latency_max, later.latency_max),
            _maximum(self.measured, later.measured),
        )


def _maximum(one: float, two: float) -> float:
    """The maximum; NaN only if both are NaN. (`max` depends on their order.)"""
    return float(np.fmax(one, two))


def _join_pairs(spans: list[Span]) -> list[Span]:
    pairs = [first.join(second) for first, second in zip(spans[::2], spans[1::2], strict=False)]
    return pairs + spans[2 * len(pairs) :]


def _draw(spans: list[Span], title: str) -> bytes:
    """The plot as a PNG file."""
    from matplotlib.figure import Figure

    while len(spans) > MAX_COLUMNS:
        spans = _join_pairs(spans)
    frames = np.array([span.num_frames for span in spans])
    times = np.array([span.time for span in spans], float)  # NaN where unknown
    timed = len(spans) > 1 and bool((np.diff(times) > 0).all())
    edges = np.append(times, times[-1] + np.diff(times).mean()) if timed else np.append(0, np.cumsum(frames))

    figure = Figure(figsize=(12, 7), layout="constrained")
    strip, change, blocks, latency = figure.subplots(4, sharex=True, height_ratios=(0.6, 2, 1.2, 1.5))
    levels = np.array([span.levels for span in spans])
    tops = np.cumsum(levels / frames[:, None], axis=1)
    for number, level in enumerate(Level):
        bottom = tops[:, number - 1] if number else 0
        share = f"{level} {levels[:, number].sum() / frames.sum():.0%}"
        strip.stairs(tops[:, number], edges, baseline=bottom, fill=True, color=LEVEL_COLORS[level], label=share)
    strip.set(ylim=(0, 1), yticks=[], ylabel="level")
    text = f"{title}  " * bool(title) + f"{frames.sum()} frames"
    strip.set_title(text, loc="left", fontweight="bold", parse_math=False)

    _draw_line(change, [span.drift for span in spans], edges, "#555555", "drift")
    _draw_line(change, [span.distortion for span in spans], edges, "#0072b2", "distortion", filled=True)
    _draw_dots(change, np.array([span.measured for span in spans]), edges)
    _draw_line(blocks, [span.kept_blocks for span in spans] / frames, edges, "#7a5195", "kept blocks", filled=True)
    latency.stairs([span.latency_max for span in spans], edges, fill=True, color="#c9ced6", label="longest")
    _draw_line(latency, [span.latency_sum for span in spans] / frames, edges, "#333333", "mean")

    # Key frames that do not depend on the frame before have no distortion.
    heights = [value for span in spans for value in (span.distortion, span.drift) if math.isfinite(value)]
    change.set(ylabel="change", ylim=(0, 1.08 * max(heights, default=1.0) or 1.0))
    most_blocks = max(span.num_blocks / span.num_frames for span in spans)
    blocks.set(ylabel="kept blocks", ylim=(0, 1.08 * max(1.0, most_blocks)))
    blocks.yaxis.get_major_locator().set_params(integer=True)
    latency.set(ylabel="latency (ms)", ylim=(0, None), xlabel="time (s)" if timed else "frame")
    for axes in (strip, change, blocks, latency):
        axes.set_xlim(edges[0], edges[-1])
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", alpha=0.25)
    for axes in (strip, change, latency):
        axes.legend(loc="lower right", bbox_to_anchor=(1, 0.97), ncols=3, frameon=False, handlelength=1)
    figure.align_ylabels()
    data = io.BytesIO()
    figure.savefig(data, format="png", dpi=120)
    return data.getvalue()


def _draw_dots(axes: Any, shares: Any, edges: Any) -> None:
    """Plot the change that audits measured, in percent of the pixels. It has its own axis, as it is far smaller."""
    known = np.isfinite(shares)
    if not known.any():
        return
    middles = (edges[:-1] + edges[1:]) / 2
    right, style = axes.twinx(), {"color": "#c8443a", "marker": ".", "linestyle": "none"}
    right.plot(middles[known], 100 * shares[known], **style)
    right.set(ylim=(0, 108 * float(shares[known].max()) or 1.0), ylabel="measured (%)")
    right.spines["top"].set_visible(False)
    axes.plot([], [], label="measured change (right)", **style)


def _draw_line(axes: Any, values: Any, edges: Any, color: str, label: str, filled: bool = False) -> None:
    if filled:
        axes.stairs(values, edges, fill=True, color=color, alpha=0.25)
    axes.stairs(values, edges, baseline=None, color=color, label=label)
