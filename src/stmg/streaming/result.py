"""Result: what comes out of a stream for each frame, built by one function in all modes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from stmg.streaming.audit import Audit
from stmg.streaming.correction import Corrector, add_cost
from stmg.streaming.cost import Cost
from stmg.streaming.flow import Map
from stmg.streaming.runtime import Runtime
from stmg.streaming.schedulers import Level
from stmg.streaming.segmentation import Segmentation
from stmg.video.frames import Frame, Image, check_color, swap_red_and_blue
from stmg.video.labels import Labels
from stmg.video.overlay import draw_labels


@dataclass(frozen=True)
class FrameResult:
    """The segmentation of one frame."""

    labels: Labels
    """(H, W) class ids."""
    level: Level
    reason: str
    """Why this level: first frame, size change, gap, cut, seam, last frame or the scheduler's name."""
    distortion: float
    """Mean of the spatial mask, 0 = nothing changed that motion does not explain; NaN where no mask was needed."""
    drift: float
    """Distortion added up since the last key frame, less what partial frames refreshed."""
    keep: tuple[bool, ...]
    """True for each residual block that ran; all False on a carried frame."""
    latency_ms: float
    """Time from the frame handed in to the labels handed out."""
    motion: str
    """The estimator of its flow, like dis or dis-fine; none where no flow was needed."""
    count_cost: Callable[[], Cost | None] = field(repr=False)
    """Counts `cost`. Of a new frame size that may take a pass of the network, so it is put off until somebody asks."""
    index: int
    """Position in the stream, as the source counts or, failing that, as frames were handed in."""
    time: float | None
    image: Image = field(repr=False)
    """The frame itself, RGB."""
    changed: Map | None = field(repr=False)
    """The spatial mask; None if none was needed."""
    palette: NDArray[np.uint8] = field(repr=False)
    computed: bool = False
    """True on the first frame that shows a new result of the network."""
    anchor_distance: int = 0
    """Frames to the computed frame that the labels come from; offline, to the nearer of the two."""
    stale: bool = False
    """True while the labels are those of another scene: realtime, after a cut, until the network has answered."""
    corrected: bool = False
    """True if the corrector has changed what was carried, on this frame or on the one that this one is warped from;
    `changed` is then its mask."""
    probability: NDArray[np.float32] | None = field(default=None, repr=False)
    """(H, W) of the foreground, of networks with one channel, which the labels are thresholded from; else None."""
    audit: Audit | None = None
    """Difference between this computed frame and what would have been shown instead; None if not measured."""

    @cached_property
    def cost(self) -> Cost | None:
        """Operations executed for this frame; None if they cannot be counted."""
        return self.count_cost()

    @property
    def macs(self) -> int | None:
        """Multiply-accumulates executed for this frame, mask generator included; None if they cannot be counted."""
        return None if self.cost is None else self.cost.macs

    @property
    def kept_blocks(self) -> int:
        """Number of prunable blocks that ran."""
        return sum(self.keep)

    def plot(self, opacity: float = 0.5, *, color: str = "rgb") -> Image:
        """Draw the labels over the frame, (H, W, 3) in RGB, or in BGR for OpenCV to show or write."""
        drawn = draw_labels(self.image, self.labels, self.palette, opacity)
        return drawn if check_color(color) == "rgb" else swap_red_and_blue(drawn)


def make_result(
    runtime: Runtime,
    palette: NDArray[np.uint8],
    frame: Frame,
    number: int,
    shown: Segmentation,
    level: Level,
    reason: str,
    *,
    latency_ms: float,
    computed: bool,
    motion: str = "none",
    changed: Map | None = None,
    drift: float = 0.0,
    keep: tuple[bool, ...] | None = None,
    executed: Level | None = None,
    scale: float = 1.0,
    masked: bool = False,
    corrector: Corrector | None = None,
    distance: int = 0,
    stale: bool = False,
    audit: Audit | None = None,
) -> FrameResult:
    """Make the result of a frame, in every mode.

    number: number of frames handed in before it.
    shown: segmentation of the frame, in arrays that nothing else writes to or keeps.
    changed: (h, w), the change that its motion does not explain.
    keep: the residual blocks that ran; all of them on a key frame and none on others if not given.
    executed: the level whose cost it bears, if that is not its own.
    scale, masked: the scale of a partial frame, and whether the mask generator ran.
    corrector: the one that ran for this frame, if any.
    """
    keep = (level is Level.KEY,) * runtime.num_blocks if keep is None else keep
    executed, size = executed or level, frame.size  # counting later must not keep a resized frame in memory
    ran = keep if executed is level else (executed is Level.KEY,) * runtime.num_blocks

    def count_cost() -> Cost | None:
        return add_cost(runtime.cost(size, executed, ran, scale, masked), corrector, size)

    return FrameResult(
        labels=shown.labels,
        level=level,
        reason=reason,
        distortion=math.nan if changed is None else float(changed.mean()),
        drift=drift,
        keep=keep,
        latency_ms=latency_ms,
        motion=motion,
        count_cost=count_cost,
        index=number if frame.index is None else frame.index,
        time=frame.time,
        image=frame.image,
        changed=changed if shown.correction is None else shown.correction,
        palette=palette,
        computed=computed,
        anchor_distance=distance,
        stale=stale,
        corrected=shown.correction is not None,
        probability=shown.probability,
        audit=audit,
    )
