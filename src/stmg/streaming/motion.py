"""Motion: the flow between two frames, by optical flow or from the codec's vectors, and what it leaves unexplained.

What a flow is, and how to warp along one, is in `stmg.streaming.flow`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol

import cv2
import numpy as np
from numpy.typing import NDArray

from stmg.errors import SettingsError
from stmg.streaming.codec import flow_of_vectors
from stmg.streaming.flow import Flow, Map, match_error, warp
from stmg.video.frames import CodecVectors, Frame, resize_image


class FlowLevel(NamedTuple):
    """A quality of dense inverse search."""

    view_width: int
    """Of the view that is searched."""
    stride: int
    """Pixels from one patch to the next: less gives sharper edges."""
    refines: bool = False
    """Whether a flow over several frames is searched once more, from where its steps lead."""
    both_ways: bool = False
    """Whether offline searches the way to the frame after as well, instead of inverting the way back."""
    offline_stride: int | None = None
    """The stride in offline mode, where the flows of both sides are to agree at edges; the same if None."""


DIS_LEVELS = {
    "dis": FlowLevel(240, 5, offline_stride=4),
    "dis-medium": FlowLevel(320, 6, refines=True),
    "dis-fine": FlowLevel(480, 4, refines=True),
    "dis-finest": FlowLevel(480, 3, refines=True, both_ways=True),
}
"""Of optical flow; what each costs and is worth is in benchmarks/pages/parts.md."""
CHANGE_WIDTH = 240  # of the view at which change is measured, however wide the search: it means the same at each level
REFINED = 2  # gray levels by which a flow searched over several frames must be better than that of its steps
CELL = 4  # pixels of that view per cell of a distortion map


@dataclass(frozen=True, slots=True)
class View:
    """What remains of a frame for finding motion and change: a small gray image."""

    gray: NDArray[np.uint8]
    """(h, w), at most the estimator's `view_width` wide."""
    index: int | None
    """Position of the frame in its source."""
    vectors: CodecVectors | None
    """The decoder's motion vectors, if the source keeps them."""
    size: tuple[int, int]
    """(H, W) of the frame itself."""


class Motion(NamedTuple):
    """A flow and where it came from."""

    flow: Flow | None
    """(h, w, 2), h and w those of `flow_shape(now)`; None: nothing moves."""
    source: str
    """What to report in `FrameResult.motion`: none, dis, codec, or a name of your own."""


class MotionEstimator(Protocol):
    """Estimates the flow between two frames of a stream. It keeps nothing between calls: several streams may share it.

    To bring your own, give an object with these members as `motion`; it need not derive from anything:

        class StillCamera:
            name = "still"
            needs_vectors = False
            view_width = 240
            both_ways = False

            def estimate(self, before: View, now: View) -> Motion:
                return Motion(None, self.name)

        segmenter = stmg.VideoSegmenter(network, motion=StillCamera())

    A flow that is not None says where each cell of `now` was in `before`, minus where it is now, as fractions of the
    frame's width and height; all flows of a stream have the shape `flow_shape(now)`, so that they can be composed.
    """

    name: str
    """What it is called in settings and results."""
    needs_vectors: bool
    """Whether sources should keep the decoder's motion vectors, to be found in `View.vectors`."""
    view_width: int
    """How wide the gray views should be that are compared; narrower frames stay as they are."""
    both_ways: bool = False
    """Whether offline mode should search the way to the next frame as well, instead of inverting the way back. An
    estimator without it counts as False."""

    def estimate(self, before: View, now: View) -> Motion:
        """The flow from `now` back to `before`, two views of the same shape."""

    def refine(self, flow: Flow, before: View, now: View) -> Flow:
        """A flow over several frames, composed of their steps, fitted to its first and last frame themselves.

        An estimator without it leaves flows as they are composed.
        """
        return flow

    def for_offline(self) -> MotionEstimator:
        """The estimator that offline mode uses in its place; an estimator without it is used itself."""
        return self


class NoMotion:
    """Everything stays where it was: the paper's setting."""

    name = "none"
    needs_vectors = False
    both_ways = False
    view_width = DIS_LEVELS["dis"].view_width

    def estimate(self, before: View, now: View) -> Motion:
        return Motion(None, "none")

    def refine(self, flow: Flow, before: View, now: View) -> Flow:
        return flow

    def for_offline(self) -> NoMotion:
        return self


class DisMotion:
    """Dense inverse search, OpenCV's fast optical flow, on the small gray view.

    level: one of `DIS_LEVELS`; finer ones follow edges better and take longer.
    """

    needs_vectors = False

    def __init__(self, level: str = "dis") -> None:
        if level not in DIS_LEVELS:
            names = ", ".join(DIS_LEVELS)
            raise SettingsError(f"no level of dense inverse search is called {level!r}; there are {names}")
        chosen = DIS_LEVELS[level]
        self.name, self.view_width, self.both_ways = level, chosen.view_width, chosen.both_ways
        self._stride, self._offline_stride, self._refines = chosen.stride, chosen.offline_stride, chosen.refines
        self._thread = threading.local()  # OpenCV's estimator keeps buffers, and streams may run in several threads

    def estimate(self, before: View, now: View) -> Motion:
        return Motion(self._search(before, now, None), "dis")

    def refine(self, flow: Flow, before: View, now: View) -> Flow:
        """Errors of the steps add up. A search that starts from where they lead undoes them, but is lost where
        something is hidden; so it counts where it explains the frame better."""
        if not self._refines:
            return flow
        height, width = now.gray.shape
        start = cv2.resize(cv2.multiply(flow, (width, height, 0, 0)), (width, height), interpolation=cv2.INTER_LINEAR)
        found = self._search(before, now, start)
        old, new = (resize_image(view.gray, flow_shape(now)) for view in (before, now))
        is_better = cv2.add(match_error(old, new, found), REFINED) < match_error(old, new, flow)
        refined: Flow = np.where(is_better[:, :, None], found, flow)
        return refined

    def for_offline(self) -> DisMotion:
        if self._offline_stride is None:
            return self
        other = copy(self)
        other._stride, other._thread = self._offline_stride, threading.local()
        return other

    def _search(self, before: View, now: View, start: Flow | None) -> Flow:
        height, width = now.gray.shape
        pixels = self._estimator(is_started=start is not None).calc(now.gray, before.gray, start)
        # The search ends at half the view; upsampled by itself it is no finer, but dearer to compose and warp along.
        coarse = cv2.resize(pixels, flow_shape(now)[::-1], interpolation=cv2.INTER_AREA)
        flow: Flow = cv2.multiply(coarse, (1 / width, 1 / height, 0, 0))
        return flow

    def _estimator(self, *, is_started: bool) -> Any:
        """OpenCV's; one that was once given where to start remembers that, so there are two."""
        name = "started" if is_started else "plain"
        if not hasattr(self._thread, name):
            estimator = cv2.DISOpticalFlow.create(cv2.DISOpticalFlow_PRESET_ULTRAFAST)
            # The preset stops at a quarter of the view. One scale more follows edges as well as a view twice as wide.
            estimator.setFinestScale(1)
            estimator.setPatchStride(self._stride)
            setattr(self._thread, name, estimator)
        return getattr(self._thread, name)


class AutoMotion(DisMotion):
    """The level of dense inverse search that fits the network: a segmenter measures both on its first frame."""

    def __init__(self) -> None:
        super().__init__()
        self.name = "auto"


class CodecMotion:
    """The vectors a video was coded with, where they can be trusted; dense inverse search elsewhere.

    A decoder says whether a vector points to the past or the future, not to which frame. Those into the past are taken
    to point into the last I or P frame, and motion is taken as even in between, so they are scaled to the step at hand.
    That is a guess, and an encoder seeks few bits, not true motion; so their flow is used only if it explains most of
    what changed.

    coverage: the share of the frame that must have vectors.
    explains: the share of what changed, had nothing moved, that the flow must explain.
    """

    name = "codec"
    needs_vectors = True
    both_ways = False
    view_width = DIS_LEVELS["dis"].view_width

    def __init__(self, coverage: float = 0.6, explains: float = 0.45) -> None:
        self.coverage = coverage
        self.explains = explains
        self._fallback = DisMotion()

    def estimate(self, before: View, now: View) -> Motion:
        flow = self._read_vectors(before, now)
        if flow is None or not self._is_trusted(before, now, flow):
            return self._fallback.estimate(before, now)
        return Motion(flow, "codec")

    def refine(self, flow: Flow, before: View, now: View) -> Flow:
        return flow

    def for_offline(self) -> CodecMotion:
        other = copy(self)
        other._fallback = self._fallback.for_offline()
        return other

    def _is_trusted(self, before: View, now: View, flow: Flow) -> bool:
        warped, still = (float(measure_change(before, now, way).mean()) for way in (flow, None))
        return warped <= max((1 - self.explains) * still, 0.02)  # the floor is sensor noise

    def _read_vectors(self, before: View, now: View) -> Flow | None:
        vectors = now.vectors
        if vectors is None or vectors.reference is None or now.index is None or before.index is None:
            return None
        distance, step = now.index - vectors.reference, now.index - before.index
        if distance <= 0 or step <= 0:
            return None
        return flow_of_vectors(vectors, step / distance, self.coverage, flow_shape(now))


MOTION_ESTIMATORS: dict[str, Callable[[], MotionEstimator]] = {
    **{name: partial(DisMotion, name) for name in DIS_LEVELS},
    "auto": AutoMotion,
    "codec": CodecMotion,
    "none": NoMotion,
}


def make_motion_estimator(name: str) -> MotionEstimator:
    """Build a motion estimator by its name."""
    if name not in MOTION_ESTIMATORS:
        raise SettingsError(f"no motion estimator is called {name!r}; there are {', '.join(MOTION_ESTIMATORS)}")
    return MOTION_ESTIMATORS[name]()


def for_offline(motion: MotionEstimator) -> MotionEstimator:
    """The estimator that offline mode uses."""
    other: Callable[[], MotionEstimator] | None = getattr(motion, "for_offline", None)  # a user's own need not have it
    return motion if other is None else other()


def make_view(frame: Frame, width: int = DIS_LEVELS["dis"].view_width) -> View:
    """The small gray view of a frame."""
    height, full = frame.size
    gray = cv2.cvtColor(frame.image, cv2.COLOR_RGB2GRAY)
    if full > width:
        gray = resize_image(gray, (max(1, round(height * width / full)), width))
    # Patches of the search need some room. Flows count in fractions of the frame, so stretching does no harm.
    if min(gray.shape) < 32:
        gray = resize_image(gray, (max(gray.shape[0], 32), max(gray.shape[1], 32)))
    return View(gray, frame.index, frame.vectors, frame.size)


def measure_change(before: View, now: View, flow: Flow | None) -> Map:
    """How much of each cell changed beyond what the flow explains, in [0, 1], (h / 4, w / 4).

    The difference that is left after warping is divided by the local contrast, so that texture and light count alike,
    and a floor of ten gray levels stands for sensor noise.
    """
    height, width = _change_shape(now)
    old, new = (resize_image(view.gray, (height // 2, width // 2)) for view in (before, now))
    difference = cv2.absdiff(new, warp(old, flow))
    contrast = cv2.blur(cv2.absdiff(new, cv2.blur(new, (7, 7))), (7, 7))
    share = np.minimum(difference / (2.5 * contrast.astype(np.float32) + 10), 1)
    cells: Map = cv2.resize(share, map_shape(now)[::-1], interpolation=cv2.INTER_AREA)
    return cells


def map_shape(view: View) -> tuple[int, int]:
    """(h, w) of the distortion map of a view."""
    height, width = _change_shape(view)
    return max(1, height // CELL), max(1, width // CELL)


def _change_shape(view: View) -> tuple[int, int]:
    height, width = view.gray.shape
    return (height, width) if width <= CHANGE_WIDTH else (max(2, round(height * CHANGE_WIDTH / width)), CHANGE_WIDTH)


def flow_shape(view: View) -> tuple[int, int]:
    """(h, w) of every flow between views of this shape, so that flows from different estimators compose."""
    height, width = view.gray.shape
    return height // 2, width // 2
