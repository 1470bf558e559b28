"""Summary: the statistics of a stream as a table, as lines and as plain values."""

from __future__ import annotations

from rich.table import Table

from stmg.streaming.statistics import Statistics


def make_summary_table(statistics: Statistics) -> Table:
    """Frames and latency by level."""
    table = Table("level")
    # Offline a frame waits for the next computed one, however fast each step is.
    for head in ("frames", "share", "waits, ms" if statistics.mode == "offline" else "mean ms"):
        table.add_column(head, justify="right")
    total = statistics.num_frames
    for level, count in sorted(statistics.frames.items()):
        table.add_row(level, str(count), f"{count / total:.0%}", f"{statistics.mean_latency(level):.1f}")
    table.add_section()
    table.add_row("all", str(total), "", f"{sum(statistics.milliseconds.values()) / max(total, 1):.1f}")
    return table


def make_summary_lines(statistics: Statistics, max_change: float | None = None) -> list[str]:
    """The whole stream in a line, what matters in this mode, and what audits measured.

    max_change: the goal that the stream was steered by.
    """
    return [_make_line(statistics), *_make_mode_lines(statistics), *_make_audit_lines(statistics, max_change)]


def _make_line(statistics: Statistics) -> str:
    macs, flows = statistics.macs_per_frame, statistics.motion.most_common()
    parts = (
        f"{statistics.mode}: {statistics.num_frames} frames, {statistics.fps:.1f} FPS from source to outputs",
        "MACs not counted" if macs is None else f"{macs / 1e9:.2f} GMACs per frame",
        f"flow: {', '.join(f'{name} {count}' for name, count in flows) or 'none'}",
    )
    return "; ".join(parts)


def _make_mode_lines(statistics: Statistics) -> list[str]:
    runs = f"network ran {statistics.network_runs} times for {statistics.num_frames} frames"
    if statistics.mode != "realtime":
        return [runs] if statistics.mode == "offline" else []
    lines = [
        f"latency {statistics.latency(0.5):.1f} ms (p50), {statistics.latency(0.95):.1f} ms (p95); {runs}; labels come "
        f"from {statistics.mean_age:.1f} frames before, on average"
    ]
    if statistics.stale:
        lines.append(f"{statistics.stale} frames showed the labels of another scene, until the network had answered")
    return lines


def _make_audit_lines(statistics: Statistics, max_change: float | None) -> list[str]:
    change = statistics.changed
    if change is None:
        return ["change not measured: too few computed frames"] * bool(statistics.frames["carry"])
    own = "not known" if statistics.flicker is None else f"{statistics.flicker:.1%}"
    computed = f"{statistics.audits} of {statistics.network_runs} computed frames"
    lines = [f"measured change {change:.1%} of pixels, on {computed} (the network's own flicker: {own})"]
    if max_change is not None and change > max_change:
        lines.append(
            f"above the goal of {max_change:.1%}: the budget follows within a factor of 8, a step with each computed "
            "frame; on a short video use stmg tune"
        )
    return lines


def list_troubles(statistics: Statistics) -> list[str]:
    """Problems of the run, one line each."""
    lines, late = [], statistics.dropped - statistics.dropped_early
    if statistics.dropped_early:
        lines.append(f"{statistics.dropped_early} frames came before the first was answered, and were dropped")
    if late:
        lines.append(f"{late} frames came faster than they could be segmented and were dropped")
    if statistics.damaged:
        lines.append(statistics.damaged)
    if statistics.lost:
        lines.append(f"{statistics.lost}; the outputs hold every frame up to there")
    if statistics.interrupted:
        lines.append("interrupted; the outputs hold every frame up to here")
    return lines


def make_summary_values(statistics: Statistics) -> dict[str, object]:
    """The summary for programs. None: unknown."""
    macs, changed, frames = statistics.macs_per_frame, statistics.changed, statistics.frames
    return {
        "mode": statistics.mode,
        "frames": statistics.num_frames,
        "fps": round(statistics.fps, 3),
        "levels": {
            level: {"frames": count, "mean_ms": round(statistics.mean_latency(level), 3)}
            for level, count in sorted(frames.items())
        },
        "latency_ms": {
            name: round(statistics.latency(share), 1) if frames else None
            for name, share in (("p50", 0.5), ("p95", 0.95), ("max", 1.0))
        },
        "network_runs": statistics.network_runs,
        "mean_age": round(statistics.mean_age, 3),
        "stale": statistics.stale,
        "macs_per_frame": None if macs is None else round(macs),
        "motion": dict(statistics.motion.most_common()),
        "audits": statistics.audits,
        "changed": None if changed is None else round(changed, 6),
        "flicker": statistics.flicker,
        "dropped": statistics.dropped,
        "dropped_early": statistics.dropped_early,
        "damaged": statistics.damaged,
        "lost": statistics.lost,
        "interrupted": statistics.interrupted,
    }
