"""Summary: what a stream took, by level and by mode; nothing is held of a frame, however long the stream."""

from __future__ import annotations

import math
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rich.table import Table

if TYPE_CHECKING:
    from stmg.streaming.state import FrameResult


@dataclass
class Summary:
    """Counts over a stream of any length."""

    mode: str = "online"
    frames: Counter[str] = field(default_factory=Counter)
    milliseconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    motion: Counter[str] = field(default_factory=Counter)
    """Frames by where their flow came from."""
    max_change: float | None = None
    """The goal that the stream was steered by."""
    macs: int = 0
    num_counted: int = 0
    """Frames whose MACs could be counted."""
    latencies: Counter[int] = field(default_factory=Counter)
    """Frames by their latency in tenths of a millisecond."""
    runs: int = 0
    """Runs of the network whose labels were shown."""
    age_sum: int = 0
    """Frames since the anchor, added up over all frames."""
    age: float = math.inf
    """That of the last frame."""
    stale: int = 0
    """Frames that showed the labels of another scene."""
    audits: int = 0
    """Computed frames that were compared with what would have been shown."""
    changed_sum: float = 0.0
    """Share of the pixels that they changed, added up."""
    flicker: float | None = None
    """The network's own, by the last audit that knew it."""
    dropped: int = 0
    """Frames of a live source that were not segmented."""
    dropped_early: int = 0
    """Of these, those that came before the first one was answered, while the model was loaded."""
    damaged: str | None = None
    """What could not be decoded, in words."""
    lost: str | None = None
    """Why a live source ended, if it broke off."""
    interrupted: bool = False
    started: float = field(default_factory=time.perf_counter)

    def add(self, result: FrameResult) -> None:
        # In realtime a new anchor shows by an age that did not grow: its own frame may have been answered long before.
        is_new = result.anchor_distance <= self.age if self.mode == "realtime" else result.level != "carry"
        self.runs += int(is_new and not result.stale)
        self.age = result.anchor_distance
        self.age_sum += result.anchor_distance
        self.stale += int(result.stale)
        if result.audit is not None:
            self.audits += 1
            self.changed_sum += result.audit.changed
            self.flicker = self.flicker if result.audit.flicker is None else result.audit.flicker
        self.latencies[round(10 * result.latency_ms)] += 1
        self.frames[result.level] += 1
        self.milliseconds[result.level] += result.latency_ms
        self.motion[result.motion] += 1
        if result.macs is not None:
            self.macs += result.macs
            self.num_counted += 1

    @property
    def num_frames(self) -> int:
        return self.frames.total()

    @property
    def fps(self) -> float:
        """Frames per second from source to sinks."""
        return self.num_frames / max(time.perf_counter() - self.started, 1e-9)

    def shares(self) -> str:
        """The share of each level, as one short line."""
        total = max(self.num_frames, 1)
        return " ".join(f"{level} {count / total:.0%}" for level, count in sorted(self.frames.items()))

    def table(self) -> Table:
        table = Table("level")
        # Offline a frame waits for the next computed one, whoever takes how long.
        for head in ("frames", "share", "waits, ms" if self.mode == "offline" else "mean ms"):
            table.add_column(head, justify="right")
        for level, count in sorted(self.frames.items()):
            mean = self.milliseconds[level] / count
            table.add_row(level, str(count), f"{count / self.num_frames:.0%}", f"{mean:.1f}")
        table.add_section()
        total = sum(self.milliseconds.values())
        table.add_row("all", str(self.num_frames), "", f"{total / max(self.num_frames, 1):.1f}")
        return table

    def latency(self, share: float) -> float:
        """The latency in milliseconds that this share of the frames stayed within."""
        rank, seen = share * self.num_frames, 0
        for tenths, count in sorted(self.latencies.items()):
            seen += count
            if seen >= rank:
                return tenths / 10
        return math.nan

    def mode_lines(self) -> list[str]:
        """What matters in this mode, in lines."""
        runs = f"network ran {self.runs} times for {self.num_frames} frames"
        if self.mode != "realtime":
            return [runs] if self.mode == "offline" else []
        mean_age = self.age_sum / max(self.num_frames, 1)
        lines = [
            f"latency {self.latency(0.5):.1f} ms (p50), {self.latency(0.95):.1f} ms (p95); {runs}; labels come from "
            f"{mean_age:.1f} frames before, on average"
        ]
        if self.stale:
            lines.append(f"{self.stale} frames showed the labels of another scene, until the network had answered")
        return lines

    def audit_lines(self) -> list[str]:
        """How far what was shown had come from what the network says, where that was measured."""
        if not self.audits:
            return ["change not measured: too few computed frames"] * bool(self.frames["carry"])
        own = "not known" if self.flicker is None else f"{self.flicker:.1%}"
        change = self.changed_sum / self.audits
        computed = f"{self.audits} of {self.runs} computed frames"
        lines = [f"measured change {change:.1%} of pixels, on {computed} (the network's own flicker: {own})"]
        if self.max_change is not None and change > self.max_change:
            lines.append(
                f"above the goal of {self.max_change:.1%}: the budget follows within a factor of 8, a step with each "
                "computed frame; on a short video use stmg tune"
            )
        return lines

    def trouble_lines(self) -> list[str]:
        """What went wrong, in lines."""
        lines, late = [], self.dropped - self.dropped_early
        if self.dropped_early:
            lines.append(f"{self.dropped_early} frames came before the first was answered, and were dropped")
        if late:
            lines.append(f"{late} frames came faster than they could be segmented and were dropped")
        if self.damaged:
            lines.append(self.damaged)
        if self.lost:
            lines.append(f"{self.lost}; the outputs hold every frame up to there")
        if self.interrupted:
            lines.append("interrupted; the outputs hold every frame up to here")
        return lines

    def as_dict(self) -> dict[str, object]:
        """What the lines and the table say, for programs; None stands for what is not known."""
        total = max(self.num_frames, 1)
        return {
            "mode": self.mode,
            "frames": self.num_frames,
            "fps": round(self.fps, 3),
            "levels": {
                level: {"frames": count, "mean_ms": round(self.milliseconds[level] / count, 3)}
                for level, count in sorted(self.frames.items())
            },
            "latency_ms": {
                name: round(self.latency(share), 1) if self.frames else None
                for name, share in (("p50", 0.5), ("p95", 0.95), ("max", 1.0))
            },
            "network_runs": self.runs,
            "mean_age": round(self.age_sum / total, 3),
            "stale": self.stale,
            "macs_per_frame": round(self.macs / total) if self.num_counted == self.num_frames > 0 else None,
            "motion": dict(self.motion.most_common()),
            "audits": self.audits,
            "changed": round(self.changed_sum / self.audits, 6) if self.audits else None,
            "flicker": self.flicker,
            "dropped": self.dropped,
            "dropped_early": self.dropped_early,
            "damaged": self.damaged,
            "lost": self.lost,
            "interrupted": self.interrupted,
        }

    def line(self) -> str:
        """The whole stream in a line."""
        parts = [f"{self.mode}: {self.num_frames} frames, {self.fps:.1f} FPS from source to outputs"]
        if self.num_counted == self.num_frames > 0:
            parts.append(f"{self.macs / self.num_counted / 1e9:.2f} GMACs per frame")
        else:
            parts.append("MACs not counted")
        flows = ", ".join(f"{name} {count}" for name, count in self.motion.most_common())
        return "; ".join([*parts, f"flow: {flows or 'none'}"])
