"""Motion: estimators of the flow between two frames, the gray views they look at, and what flow leaves unexplained.

What a flow is, and how to warp along one, is in `stmg.streaming.flow`.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from stmg.errors import SettingsError
from stmg.streaming.flow import Flow, Map, match_error, warp
from stmg.video.frames import Frame, resize_image


class DisLevel(NamedTuple):
    """Settings of dense inverse search at one level of quality."""

    view_width: int
    """Width of the view that is searched."""
    stride: int
    """Pixels from one patch to the next. Fewer give sharper edges."""
    refines: bool = False
    """Search a flow over several frames once more, starting from its composed steps."""
    both_ways: bool = False
    """Offline, search the flow to the next frame as well, instead of inverting the flow back."""
    offline_stride: int | None = None
    """Stride in offline mode, where the flows of both sides should agree at edges; None: the same."""
    min_macs: float = 0.0
    """Multiply-accumulates of a network from which `auto` chooses this level."""


# What each level costs and is worth is in benchmarks/pages/parts.md. At about equal loss one frame in 7, 8.5, 10.5 and
# 12 is computed with the levels, whose flow costs 1, 4.1, 14 and 30 offline. So the second pays for a network of cost T
# if T/8.5 + 4.1 < T/7 + 1, and so on: from 125, 430 and 1400 flows of `dis`, each of which takes as long as 0.08 GMACs
# of DDRNet-39.
DIS_LEVELS = {
    "dis": DisLevel(240, 5, offline_stride=4),
    "dis-medium": DisLevel(320, 6, refines=True, min_macs=10e9),
    "dis-fine": DisLevel(480, 4, refines=True, min_macs=35e9),
    "dis-finest": DisLevel(480, 3, refines=True, both_ways=True, min_macs=115e9),
}
VIEW_WIDTH = DIS_LEVELS["dis"].view_width
CHANGE_WIDTH = 240  # of the view in which change is measured, so that it means the same at each level
REFINE_MARGIN = 2  # gray levels by which a refined flow must match better than the composed one
CELL = 4  # pixels of that view per cell of a map of change
MIN_STEPS_TO_REFINE = 4  # over fewer steps errors hardly add up, and most flows are over fewer


@dataclass(frozen=True, slots=True)
class View:
    """The small gray image of a frame in which motion and change are measured."""

    gray: NDArray[np.uint8]
    """(h, w), at most the estimator's `view_width` wide."""
    size: tuple[int, int]
    """(H, W) of the frame itself."""


class MotionEstimator(ABC):
    """Estimates the flow between two frames. It keeps no state between calls, so several streams may share one.

    Derive from it and give an instance as `motion`. Only `estimate` must be given:

        class StillCamera(stmg.MotionEstimator):
            name = "still"

            def estimate(self, before, now):
                return None

        segmenter = stmg.VideoSegmenter(network, motion=StillCamera())

    A flow that is not None says where each cell of `now` was in `before`, minus where it is now, as fractions of the
    frame's width and height. All flows of a stream have the shape `flow_shape(now)`, so that they can be composed.
    """

    name: str = "custom"
    """Name in settings, records and tables."""
    view_width: int = VIEW_WIDTH
    """Width of the gray views to compare. Narrower frames keep their own width."""
    both_ways: bool = False
    """Offline, estimate the flow to the next frame as well, instead of inverting the flow back."""

    @abstractmethod
    def estimate(self, before: View, now: View) -> Flow | None:
        """Estimate the flow from `now` back to `before`, two views of the same shape; None if nothing moved."""

    def refine(self, flow: Flow, before: View, now: View) -> Flow:
        """Fit a flow over several frames, composed of their steps, to its first and last frame."""
        return flow

    def for_offline(self) -> MotionEstimator:
        """Return the estimator to use in offline mode."""
        return self

    def for_network(self, count_macs: Callable[[], int | None]) -> MotionEstimator:
        """The estimator to use with a network whose multiply-accumulates `count_macs` counts; None: unknown."""
        return self


class NoMotion(MotionEstimator):
    """No motion: everything stays where it was, as in the paper."""

    name = "none"

    def estimate(self, before: View, now: View) -> Flow | None:
        return None


class DisMotion(MotionEstimator):
    """Dense inverse search, OpenCV's fast optical flow, on the small gray view.

    level: one of `DIS_LEVELS`; finer ones follow edges better and take longer.
    """

    def __init__(self, level: str = "dis") -> None:
        if level not in DIS_LEVELS:
            names = ", ".join(DIS_LEVELS)
            raise SettingsError(f"no level of dense inverse search is called {level!r}; there are {names}")
        chosen = DIS_LEVELS[level]
        self.name, self.view_width, self.both_ways = level, chosen.view_width, chosen.both_ways
        self._stride, self._offline_stride, self._refines = chosen.stride, chosen.offline_stride, chosen.refines
        self._thread = threading.local()  # OpenCV's search keeps buffers, and streams may run in several threads

    def estimate(self, before: View, now: View) -> Flow:
        return self._search(before, now, None)

    def refine(self, flow: Flow, before: View, now: View) -> Flow:
        """Search again, starting from `flow`, which undoes the added-up errors of its steps.

        Where something is hidden the search goes astray, so its result counts only where it matches better.
        """
        if not self._refines:
            return flow
        height, width = now.gray.shape
        start = cv2.resize(cv2.multiply(flow, (width, height, 0, 0)), (width, height), interpolation=cv2.INTER_LINEAR)
        searched = self._search(before, now, start)
        old, new = (resize_image(view.gray, flow_shape(now)) for view in (before, now))
        is_better = cv2.add(match_error(old, new, searched), REFINE_MARGIN) < match_error(old, new, flow)
        refined: Flow = np.where(is_better[:, :, None], searched, flow)
        return refined

    def for_offline(self) -> DisMotion:
        if self._offline_stride is None:
            return self
        other = copy(self)
        other._stride, other._thread = self._offline_stride, threading.local()
        return other

    def _search(self, before: View, now: View, start: Flow | None) -> Flow:
        height, width = now.gray.shape
        pixels = self._make_search(has_start=start is not None).calc(now.gray, before.gray, start)
        # The search ends at half the view's size. Upsampling the flow here would make it no finer, only more expensive.
        coarse = cv2.resize(pixels, flow_shape(now)[::-1], interpolation=cv2.INTER_AREA)
        flow: Flow = cv2.multiply(coarse, (1 / width, 1 / height, 0, 0))
        return flow

    def _make_search(self, *, has_start: bool) -> Any:
        """This thread's OpenCV object. One that was once given a start remembers it, so there are two."""
        name = "started" if has_start else "plain"
        if not hasattr(self._thread, name):
            search = cv2.DISOpticalFlow.create(cv2.DISOpticalFlow_PRESET_ULTRAFAST)
            # The preset stops at a quarter of the view. One scale more follows edges as well as a view twice as wide.
            search.setFinestScale(1)
            search.setPatchStride(self._stride)
            setattr(self._thread, name, search)
        return getattr(self._thread, name)


class AutoMotion(DisMotion):
    """The level of dense inverse search that pays for the network, by the multiply-accumulates that it executes.

    A network whose operations cannot be counted, as in a graph file, gets `dis`; `stmg tune` measures the others.
    """

    def __init__(self) -> None:
        super().__init__()
        self.name = "auto"

    def for_network(self, count_macs: Callable[[], int | None]) -> DisMotion:
        macs = count_macs() or 0
        return DisMotion([name for name, level in DIS_LEVELS.items() if macs >= level.min_macs][-1])


MOTION_ESTIMATORS: dict[str, Callable[[], MotionEstimator]] = {
    **{name: partial(DisMotion, name) for name in DIS_LEVELS},
    "auto": AutoMotion,
    "none": NoMotion,
}


def make_motion_estimator(name: str) -> MotionEstimator:
    """Build a motion estimator by its name."""
    if name == "codec":
        raise SettingsError("motion codec has been removed: use dis, which was as good, or a finer level")
    if name not in MOTION_ESTIMATORS:
        raise SettingsError(f"no motion estimator is called {name!r}; there are {', '.join(MOTION_ESTIMATORS)}")
    return MOTION_ESTIMATORS[name]()


def refine_flow(estimator: MotionEstimator, flow: Flow | None, before: View, now: View, distance: int) -> Flow | None:
    """Fit a flow over `distance` frames, composed of single steps, to its two ends if it is long enough."""
    return flow if flow is None or distance < MIN_STEPS_TO_REFINE else estimator.refine(flow, before, now)


def make_view(frame: Frame, width: int = VIEW_WIDTH) -> View:
    """Make the small gray view of a frame."""
    height, full = frame.size
    gray = cv2.cvtColor(frame.image, cv2.COLOR_RGB2GRAY)
    if full > width:
        gray = resize_image(gray, (max(1, round(height * width / full)), width))
    # Patches of the search need some room. Flows count in fractions of the frame, so stretching does no harm.
    if min(gray.shape) < 32:
        gray = resize_image(gray, (max(gray.shape[0], 32), max(gray.shape[1], 32)))
    return View(gray, frame.size)


def measure_change(before: View, now: View, flow: Flow | None) -> Map:
    """Measure how much each cell changed beyond what the flow explains, in [0, 1], (h / 4, w / 4).

    The difference left after warping is divided by the local contrast, so that texture and light count alike. The
    divisor is at least ten gray levels, to allow for sensor noise.
    """
    height, width = _change_shape(now)
    old, new = (resize_image(view.gray, (height // 2, width // 2)) for view in (before, now))
    difference = cv2.absdiff(new, warp(old, flow))
    contrast = cv2.blur(cv2.absdiff(new, cv2.blur(new, (7, 7))), (7, 7))
    share = np.minimum(difference / (2.5 * contrast.astype(np.float32) + 10), 1)
    cells: Map = cv2.resize(share, map_shape(now)[::-1], interpolation=cv2.INTER_AREA)
    return cells


def map_shape(view: View) -> tuple[int, int]:
    """(h, w) of the map of change of a view."""
    height, width = _change_shape(view)
    return max(1, height // CELL), max(1, width // CELL)


def _change_shape(view: View) -> tuple[int, int]:
    height, width = view.gray.shape
    return (height, width) if width <= CHANGE_WIDTH else (max(2, round(height * CHANGE_WIDTH / width)), CHANGE_WIDTH)


def flow_shape(view: View) -> tuple[int, int]:
    """(h, w) of every flow between views of this shape, so that flows of different estimators compose."""
    height, width = view.gray.shape
    return height // 2, width // 2
