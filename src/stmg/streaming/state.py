"""What flows through a stream: the state from frame to frame, and the result of each."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stmg.streaming.audit import UNSTEERED, Audit, Steering
from stmg.streaming.continuity import Timing
from stmg.streaming.correction import AnchorEvidence
from stmg.streaming.cost import Cost
from stmg.streaming.flow import Flow, Map
from stmg.streaming.foreground import Segmentation
from stmg.streaming.motion import View
from stmg.streaming.schedulers import Level, Memory
from stmg.video.frames import Image
from stmg.video.labels import Labels
from stmg.video.overlay import draw_labels


class Answer(NamedTuple):
    """What a frame shows."""

    shown: Segmentation
    mask: Map | None = None
    """The corrector's, of this frame or warped from the one before; None: it had no part in this."""
    corrected: bool = False
    """Whether the corrector ran on this very frame."""


@dataclass(frozen=True, slots=True)
class FrameState:
    """Everything a frame leaves for the next one of its stream.

    What is expensive (features, labels, encoder features) belongs to the last frame that was *computed*; `flow`
    leads from the newest frame back to it, so a long run of carried frames is sampled once, not blurred at each step.
    """

    view: View
    """The newest frame, small and gray."""
    anchor_view: View
    """The last computed frame, likewise."""
    timing: Timing
    """When it was taken."""
    features: Any
    """Backbone features of the last computed frame, in the runtime's own arrays; None if nothing can blend them."""
    logits: Any
    """Logits of the last computed frame, in the runtime's own arrays."""
    encoded: Any
    """The mask generator's features of the last computed frame; None without a mask generator."""
    labels: Labels
    """(H, W) of the last computed frame."""
    flow: Flow | None
    """From the newest frame to the last computed one; None if they are the same or nothing moves."""
    stale: Map | None
    """(h, w) in [0, 1]: how much of each cell the last computed frame no longer explains; None: this is that frame."""
    unrefreshed: Map | None
    """(h, w): the change that partial frames since the last key frame did not compute; None: nothing."""
    memory: Memory
    """What the scheduler remembers."""
    probability: Map | None = None
    """(H, W) of the foreground in the last computed frame; None where the network has several classes."""
    evidence: AnchorEvidence | None = None
    """What a corrector needs of the last computed frame; None without one."""
    settled: Answer | None = None
    """What the newest frame shows, if it was computed or corrected; None: it was only warped."""
    distance: int = 0
    """Frames from the newest one to the last computed one."""
    steering: Steering = UNSTEERED
    """How audits have changed the budget."""


@dataclass(frozen=True, slots=True)
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
    """Which residual blocks ran; all False on a carried frame."""
    latency_ms: float
    """From the frame handed in to the labels handed out."""
    motion: str
    """The estimator of its flow, like dis or dis-fine; none where no flow was needed."""
    cost: Cost | None
    """What was executed for this frame; None where it cannot be counted."""
    index: int
    """Position in the stream, as the source counts or, failing that, as frames were handed in."""
    time: float | None
    image: Image = field(repr=False)
    """The frame itself, RGB."""
    changed: Map | None = field(repr=False)
    """The spatial mask; None where none was needed."""
    palette: NDArray[np.uint8] = field(repr=False)
    anchor_distance: int = 0
    """Frames to the computed frame that the labels come from; offline, to the nearer of the two."""
    stale: bool = False
    """Whether the labels are still those of another scene: realtime, after a cut, until the network has answered."""
    corrected: bool = False
    """Whether the corrector has changed what was carried, on this frame or on the one before, which this one is then
    warped from; `changed` is then its mask."""
    probability: NDArray[np.float32] | None = field(default=None, repr=False)
    """(H, W) of the foreground, of networks with one channel, which the labels are thresholded from; else None."""
    audit: Audit | None = None
    """What the network said against what would have been shown without it; None where that was not compared."""

    @property
    def macs(self) -> int | None:
        """Multiply-accumulates executed for this frame, mask generator included; None where they cannot be counted."""
        return None if self.cost is None else self.cost.macs

    @property
    def kept_blocks(self) -> int:
        """How many prunable blocks ran."""
        return sum(self.keep)

    def plot(self, opacity: float = 0.5) -> Image:
        """The frame with its labels drawn over it, (H, W, 3) RGB."""
        return draw_labels(self.image, self.labels, self.palette, opacity)
