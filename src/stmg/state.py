"""What flows between the parts of the runtime: masks, the state of a stream, the result of a frame."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stmg.frames import Image
from stmg.motion import Field, View
from stmg.overlay import draw_labels
from stmg.scheduler import Level, Memory

Labels = NDArray[np.uint8]
Map = NDArray[np.float32]


class Masks(NamedTuple):
    """What to compute on a frame; the rest is reused."""

    keep: tuple[bool, ...]
    """K values, True = run residual block k."""
    changed: Map
    """(h, w) in [0, 1], 1 = take this cell from the current frame."""


class Cost(NamedTuple):
    """What a frame executed."""

    macs: int = 0
    """Multiply-accumulates, those of the mask generator included."""
    head_macs: int = 0
    """Of these, the head's: the paper counts without them."""
    params: int = 0
    """Parameters that were used."""


@dataclass(frozen=True, slots=True)
class FrameState:
    """Everything a frame leaves for the next one of its stream.

    What is expensive (features, labels, encoder features) belongs to the last frame that was *computed*; `path`
    leads from the newest frame back to it, so a long run of carried frames is sampled once, not blurred at each step.
    """

    view: View
    """The newest frame, small and grey."""
    time: float | None
    """Its time in seconds, if the source knows it."""
    interval: float | None
    """Seconds between it and the frame before."""
    features: Any
    """Backbone features of the last computed frame, in the runtime's own arrays; None if nothing can blend them."""
    scores: Any
    """Class scores of the last computed frame, in the runtime's own arrays."""
    encoded: Any
    """The mask generator's features of the last computed frame; None without a mask generator."""
    labels: Labels
    """(H, W) of the last computed frame."""
    path: Field | None
    """From the newest frame to the last computed one; None if they are the same or do not move."""
    stale: Map | None
    """(h, w) in [0, 1]: how much of each cell the last computed frame no longer explains; None: this is that frame."""
    debt: Map | None
    """(h, w): what partial frames since the last key frame left unrefreshed; None: nothing."""
    memory: Memory
    """What the scheduler remembers."""


@dataclass(frozen=True, slots=True)
class FrameResult:
    """What a segmenter says of one frame."""

    labels: Labels
    """(H, W) class ids."""
    level: Level
    reason: str
    """Why this level: first frame, size change, gap, cut or the scheduler's name."""
    distortion: float
    """Mean of the spatial mask, 0 = nothing changed that motion does not explain; not a number where nobody looked."""
    drift: float
    """Distortion added up since the last key frame, less what partial frames refreshed."""
    keep: tuple[bool, ...]
    """Which residual blocks ran; all False on a carried frame."""
    latency_ms: float
    """From the frame handed in to the labels handed out."""
    motion: str
    """Where the motion field came from: none, dis, codec."""
    cost: Cost | None
    """What was executed for this frame; None where it cannot be counted."""
    index: int
    """Place in the stream, as the source counts or, failing that, as frames were handed in."""
    time: float | None
    image: Image = field(repr=False)
    """The frame itself, RGB."""
    changed: Map | None = field(repr=False)
    """The spatial mask; None where nobody looked."""
    palette: NDArray[np.uint8] = field(repr=False)

    @property
    def macs(self) -> int | None:
        """Multiply-accumulates executed for this frame, mask generator included; None where they cannot be counted."""
        return None if self.cost is None else self.cost.macs

    @property
    def kept_blocks(self) -> int:
        """How many prunable blocks ran."""
        return sum(self.keep)

    def overlay(self, opacity: float = 0.5) -> Image:
        """The frame with its labels drawn over it, (H, W, 3) RGB."""
        return draw_labels(self.image, self.labels, self.palette, opacity)
