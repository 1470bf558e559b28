"""Statistics of a stream: its results added up, in bounded memory however long it is."""

from __future__ import annotations

import math
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from functools import partial

from stmg.streaming.result import FrameResult


@dataclass
class Statistics:
    """Totals over the results of a stream, and events of its source."""

    mode: str = "online"
    frames: Counter[str] = field(default_factory=Counter)
    """Frames by level."""
    milliseconds: defaultdict[str, float] = field(default_factory=partial(defaultdict, float))
    """Latency by level, added up."""
    latencies: Counter[int] = field(default_factory=Counter)
    """Frames by latency, in tenths of a millisecond."""
    motion: Counter[str] = field(default_factory=Counter)
    """Frames by the source of their flow."""
    macs: int = 0
    num_counted: int = 0
    """Frames whose MACs could be counted."""
    network_runs: int = 0
    """Runs of the network whose labels were shown."""
    age_sum: int = 0
    """Frames since the anchor, added up over all frames."""
    stale: int = 0
    """Frames that showed the labels of another scene."""
    audits: int = 0
    """Computed frames that were compared with what would have been shown without them."""
    changed_sum: float = 0.0
    """Share of the pixels that audits found changed, added up."""
    flicker: float | None = None
    """The network's own flicker, from the last audit that measured it."""
    dropped: int = 0
    """Frames of a live source that were not segmented."""
    dropped_early: int = 0
    """Dropped frames that came before the first result, while the model was loading."""
    damaged: str | None = None
    """Description of what could not be decoded."""
    lost: str | None = None
    """Why a live source ended, if it broke off."""
    interrupted: bool = False
    started: float = field(default_factory=time.perf_counter)

    def add(self, result: FrameResult) -> None:
        """Add the next result of the stream."""
        self.frames[str(result.level)] += 1
        self.milliseconds[str(result.level)] += result.latency_ms
        self.latencies[round(10 * result.latency_ms)] += 1
        self.motion[result.motion] += 1
        self.network_runs += int(result.computed and not result.stale)
        self.age_sum += result.anchor_distance
        self.stale += int(result.stale)
        if result.macs is not None:
            self.macs += result.macs
            self.num_counted += 1
        if result.audit is not None:
            self.audits += 1
            self.changed_sum += result.audit.changed
            self.flicker = self.flicker if result.audit.flicker is None else result.audit.flicker

    @property
    def num_frames(self) -> int:
        return self.frames.total()

    @property
    def seconds(self) -> float:
        """Seconds since the statistics were created."""
        return time.perf_counter() - self.started

    @property
    def fps(self) -> float:
        """Frames per second from source to sinks."""
        return self.num_frames / max(self.seconds, 1e-9)

    @property
    def mean_age(self) -> float:
        """Mean number of frames since the anchor."""
        return self.age_sum / max(self.num_frames, 1)

    @property
    def changed(self) -> float | None:
        """Mean share of the pixels that audits found changed; None without audits."""
        return self.changed_sum / self.audits if self.audits else None

    @property
    def macs_per_frame(self) -> float | None:
        """Mean multiply-accumulates per frame; None if those of any frame could not be counted."""
        return self.macs / self.num_counted if self.num_counted == self.num_frames > 0 else None

    def latency(self, share: float) -> float:
        """Return the latency in milliseconds that this share of the frames stayed within; NaN without frames."""
        rank, seen = share * self.num_frames, 0
        for tenths, count in sorted(self.latencies.items()):
            seen += count
            if seen >= rank:
                return tenths / 10
        return math.nan

    def mean_latency(self, level: str) -> float:
        """Mean latency of the frames of a level, in milliseconds."""
        return self.milliseconds[level] / self.frames[level]

    def shares(self) -> str:
        """Format the share of each level as one short line."""
        return " ".join(f"{level} {count / self.num_frames:.0%}" for level, count in sorted(self.frames.items()))
