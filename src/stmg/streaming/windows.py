"""Windows: the frames from one anchor to the next, and what those between show."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from functools import reduce
from itertools import accumulate, pairwise

from stmg.streaming.anchors import Anchor, carry_segmentation
from stmg.streaming.audit import Audit, compare
from stmg.streaming.blending import BlendInput, Side, blend_segmentation, correct_between
from stmg.streaming.correction import Corrector
from stmg.streaming.flow import Flow, compose, invert
from stmg.streaming.motion import MotionEstimator, refine_flow
from stmg.streaming.segmentation import Segmentation
from stmg.streaming.tracker import TrackedFrame
from stmg.video.frames import Frame

MAX_UNCORRECTED = 8
"""Most frames from one that is computed or corrected to the next, where there is a corrector. Correcting those alone
and blending the others from them is nearly as good as correcting each, and several times cheaper."""


@dataclass(frozen=True)
class WindowFrame:
    """A frame of a window."""

    frame: Frame
    number: int
    """Number of frames handed in before this one."""
    arrived: float
    """Arrival time by the clock, in seconds."""
    tracked: TrackedFrame
    flow_ahead: Future[Flow | None] | None = None
    """Flow from the frame before to this one; None if it is the inverse of the flow back."""
    anchor: Future[Anchor] | None = None
    """The network's result for this frame; None if it is not computed."""
    reason: str = ""
    """Why it is computed."""

    def wait_for_anchor(self) -> Anchor:
        """Wait for the network's result for this frame."""
        assert self.anchor is not None
        return self.anchor.result()


@dataclass
class Window:
    """The frames after an anchor, up to and with the next one. A frame that begins a scene is a window of its own."""

    left: WindowFrame | None
    """The anchor before; None where a scene begins."""
    scene: int
    frames: list[WindowFrame] = field(default_factory=list)
    """The last one is the anchor after, once the window is closed."""
    blended: list[Future[Segmentation]] | None = None
    """Segmentations of all frames but the last, once they are under way; None before."""
    audit: Future[Audit | None] | None = None
    """Audit of the last frame, once it is under way; None if it is not audited."""


class WindowBlender:
    """Gives what the frames between two anchors show.

    With a corrector some frames of a long window are corrected first. The others are then blended from the nearest
    computed or corrected frame on each side; both are called marks. Frames are numbered from the left anchor, 0.
    """

    def __init__(
        self,
        estimator: MotionEstimator,
        corrector: Corrector | None,
        left: WindowFrame,
        frames: Sequence[WindowFrame],
    ) -> None:
        self.estimator, self.corrector = estimator, corrector
        self.frames = [left, *frames]
        self.marks = find_marks(len(frames), None if corrector is None else MAX_UNCORRECTED)
        parts = [frames[start:end] for start, end in pairwise(self.marks)]
        self._to_start = [_flows_to_start(part) for part in parts]
        self._to_end = [_flows_to_end(part) for part in parts]

    def submit(self, pool: Executor) -> list[Future[Segmentation]]:
        """Start segmenting all frames in parallel."""
        left, right = self.frames[0].anchor, self.frames[-1].anchor
        assert left is not None
        assert right is not None
        # These are in the pool before any frame that waits for them.
        corrected = {mark: pool.submit(self._correct, mark) for mark in self.marks[1:-1]}
        anchors = {0: left, **corrected, self.marks[-1]: right}
        return [
            pool.submit(self._blend, at, lambda mark: anchors[mark].result()) for at in range(1, len(self.frames) - 1)
        ]

    def blend(self, at: int) -> Segmentation:
        """Segment one frame in this thread. Waits for the anchors."""
        return self._blend(at, self._compute_mark)

    def _blend(self, at: int, anchor_at: Callable[[int], Anchor]) -> Segmentation:
        part = bisect_right(self.marks, at) - 1
        start, end = self.marks[part : part + 2]
        if at == start:
            return anchor_at(start).segmentation.copy()
        left = self._make_side(at, start, anchor_at(start), self._to_start[part][at - start - 1])
        right = self._make_side(at, end, anchor_at(end), self._to_end[part][at - start])
        return blend_segmentation(BlendInput(left, right, self.frames[at].frame.image))

    def _compute_mark(self, mark: int) -> Anchor:
        return self.frames[mark].wait_for_anchor() if mark in (0, self.marks[-1]) else self._correct(mark)

    def _correct(self, mark: int) -> Anchor:
        part, last = self.marks.index(mark), self.marks[-1]
        to_left = reduce(compose, (flows[-1] for flows in self._to_start[:part]))
        to_right = reduce(compose, (flows[0] for flows in reversed(self._to_end[part:])))
        left = self._make_side(mark, 0, self.frames[0].wait_for_anchor(), to_left)
        right = self._make_side(mark, last, self.frames[last].wait_for_anchor(), to_right)
        return correct_between(self.corrector, BlendInput(left, right, self.frames[mark].frame.image))

    def _make_side(self, at: int, mark: int, anchor: Anchor, flow: Flow | None) -> Side:
        """A mark as seen from frame `at`; `flow` is composed of the steps between them."""
        distance, views = abs(at - mark), (self.frames[mark].tracked.view, self.frames[at].tracked.view)
        return Side(anchor, refine_flow(self.estimator, flow, *views, distance), distance)


def audit_anchor(
    estimator: MotionEstimator, corrector: Corrector | None, window: Window, following: Window
) -> Audit | None:
    """The anchor between two windows against what would have been shown without it, blended from the anchors around.

    None if one of the three could not be computed, which is raised where its own frame is due.
    """
    assert window.left is not None
    ends = (window.left, window.frames[-1], following.frames[-1])
    if any(end.anchor is None or end.anchor.exception() is not None for end in ends):
        return None
    left, anchor, _ = (end.wait_for_anchor() for end in ends)
    before, after = len(window.frames), len(following.frames)
    flicker = None
    if before == 1:  # two neighbors are computed: the change between them is the network's own
        flicker = compare(carry_segmentation(left, window.frames[0].tracked.flow).labels, anchor.labels, 1).changed
    shown = WindowBlender(estimator, corrector, window.left, [*window.frames, *following.frames]).blend(before)
    audit = compare(shown.labels, anchor.labels, (before + after + 1) // 2)
    return audit.bring_nearer()._replace(flicker=flicker)


def find_marks(length: int, stride: int | None) -> list[int]:
    """Numbers of frames from 0 to `length`, both included, evenly spaced and at most `stride` apart."""
    parts = 1 if stride is None else -(-length // stride)
    return [round(part * length / parts) for part in range(parts + 1)]


def _flows_to_start(frames: Sequence[WindowFrame]) -> list[Flow | None]:
    """Compute the flow from each of these consecutive frames to the one before the first."""
    return list(accumulate((frame.tracked.flow for frame in frames), compose))


def _flows_to_end(frames: Sequence[WindowFrame]) -> list[Flow | None]:
    """Compute the flow from the frame before each of these consecutive frames to the last of them."""
    steps = (
        invert(frame.tracked.flow) if frame.flow_ahead is None else frame.flow_ahead.result()
        for frame in reversed(frames)
    )
    return list(accumulate(steps, compose))[::-1]
