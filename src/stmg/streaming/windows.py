"""A window: the frames from one computed frame to the next, and how those between show what both have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import reduce
from itertools import accumulate, pairwise
from typing import NamedTuple

from stmg.streaming.anchors import Anchor, Between, Side, blend_segmentation, correct_between
from stmg.streaming.correction import Corrector
from stmg.streaming.flow import Flow, Map, compose, invert
from stmg.streaming.foreground import Segmentation
from stmg.streaming.motion import MotionEstimator, View, refine_flow
from stmg.video.frames import Frame, Image

STRIDE = 8
"""Most frames from one that is computed or corrected to the next, where there is a corrector: correcting those alone
and blending the others from them is nearly as good as correcting each, and several times cheaper."""

Blended = tuple[Segmentation, Map | None]
"""What a frame shows, and the corrector's mask if it was corrected."""


@dataclass(frozen=True)
class Look:
    """A frame and how it follows from the one before."""

    frame: Frame
    index: int
    view: View
    arrived: float
    is_start: bool = True
    """Whether it follows from none."""
    flow: Flow | None = None
    """To the frame before."""
    ahead: Future[Flow | None] | None = None
    """From the frame before to this one, where that is searched as well."""
    changed: Map | None = None
    drift: float = 0.0
    distance: int = 0
    """Frames to the nearest anchor."""

    def flow_to_it(self) -> Flow | None:
        """From the frame before to this one."""
        return invert(self.flow) if self.ahead is None else self.ahead.result()


class Computing(NamedTuple):
    """An anchor that the network is working on."""

    reason: str
    anchor: Future[Anchor]
    view: View


@dataclass
class Window:
    """The frames after an anchor, up to and with the next one.

    motion: fits the flows between them.
    """

    motion: MotionEstimator
    left: Computing | None
    looks: list[Look] = field(default_factory=list)
    right: Computing | None = None
    scene: int = 0
    blended: list[Future[Blended]] | None = None

    def close(self, right: Computing) -> Window:
        self.right = right
        return self

    def blend(self, corrector: Corrector | None, pool: ThreadPoolExecutor) -> list[Future[Blended]]:
        """What the frames between the anchors show, in their order; begun when it is first called.

        With a corrector some frames of a long window are corrected; the others are then blended from the nearest on
        each side that are computed or corrected.
        """
        if self.blended is None:
            self.blended = self._blend_all(corrector, pool) if len(self.looks) > 1 else []
        return self.blended

    def _blend_all(self, corrector: Corrector | None, pool: ThreadPoolExecutor) -> list[Future[Blended]]:
        looks = self.looks
        marks = find_marks(len(looks), None if corrector is None else STRIDE)
        parts = [
            _Flows(_flows_to_start(looks[start:end]), _flows_to_end(looks[start:end])) for start, end in pairwise(marks)
        ]
        anchors = list(self._anchors(marks, parts, corrector, pool))
        tasks = []
        for number, ((start, end), flows) in enumerate(zip(pairwise(marks), parts, strict=True)):
            left, right = anchors[number : number + 2]
            if start:
                tasks.append(pool.submit(_show, left))
            for at in range(start + 1, end):
                one = _Place(left, flows.to_start[at - start - 1], start)
                two = _Place(right, flows.to_end[at - start], end)
                tasks.append(pool.submit(self._blend, at, one, two))
        return tasks

    def show(self, at: int, corrector: Corrector | None) -> Segmentation:
        """What `blend` makes of a single frame between the anchors, by its number, counted from the left anchor."""
        assert self.left is not None
        assert self.right is not None
        marks = find_marks(len(self.looks), None if corrector is None else STRIDE)
        anchors = {0: self.left.anchor.result(), marks[-1]: self.right.anchor.result()}

        def between(start: int, at: int, end: int) -> Between:
            stops = sorted({start, at, end, *(mark for mark in marks if start < mark < end)})
            parts = [self.looks[first:last] for first, last in pairwise(stops)]
            number = stops.index(at)
            back = reduce(compose, (_flows_to_start(part)[-1] for part in parts[:number]))
            ahead = reduce(compose, (_flows_to_end(part)[0] for part in reversed(parts[number:])))
            left, right = self._side(at, anchors[start], back, start), self._side(at, anchors[end], ahead, end)
            return Between(left, right, self._image(at))

        start, end = max(mark for mark in marks if mark <= at), min(mark for mark in marks if mark > at)
        for mark in {start, end} - anchors.keys():
            anchors[mark] = correct_between(corrector, between(0, mark, marks[-1]))
        return anchors[at].shown if at == start else blend_segmentation(between(start, at, end))

    def _anchors(
        self, marks: list[int], parts: list[_Flows], corrector: Corrector | None, pool: ThreadPoolExecutor
    ) -> Iterator[Future[Anchor]]:
        """The frames at the marks. Those that are corrected are in the pool before any that waits for them."""
        assert self.left is not None
        assert self.right is not None
        to_left = list(accumulate((part.to_start[-1] for part in parts), compose))
        to_right = list(accumulate((part.to_end[0] for part in reversed(parts)), compose))[::-1]
        yield self.left.anchor
        for number, at in enumerate(marks[1:-1], start=1):
            one = _Place(self.left.anchor, to_left[number - 1], 0)
            two = _Place(self.right.anchor, to_right[number], marks[-1])
            yield pool.submit(self._correct, corrector, at, one, two)
        yield self.right.anchor

    def _correct(self, corrector: Corrector | None, at: int, left: _Place, right: _Place) -> Anchor:
        return correct_between(corrector, self._wait(at, left, right))

    def _blend(self, at: int, left: _Place, right: _Place) -> Blended:
        return blend_segmentation(self._wait(at, left, right)), None

    def _wait(self, at: int, left: _Place, right: _Place) -> Between:
        one, two = (self._side(at, place.anchor.result(), place.flow, place.number) for place in (left, right))
        return Between(one, two, self._image(at))

    def _side(self, at: int, anchor: Anchor, flow: Flow | None, number: int) -> Side:
        """An anchor that is frame `number` of the window as frame `at` sees it."""
        distance = abs(at - number)
        return Side(anchor, refine_flow(self.motion, flow, self._view(number), self._view(at), distance), distance)

    def _view(self, at: int) -> View:
        assert self.left is not None
        return self.looks[at - 1].view if at else self.left.view

    def _image(self, at: int) -> Image:
        return self.looks[at - 1].frame.image


def find_marks(length: int, stride: int | None) -> list[int]:
    """Frames of a window, from its left anchor to its right one, that are even and at most `stride` apart."""
    parts = 1 if stride is None else -(-length // stride)
    return [round(part * length / parts) for part in range(parts + 1)]


class _Flows(NamedTuple):
    """Between the frames of a part of a window."""

    to_start: list[Flow | None]
    """From each frame but the first."""
    to_end: list[Flow | None]
    """From each frame but the last."""


def _flows_to_start(looks: Sequence[Look]) -> list[Flow | None]:
    """From each of some frames in a row to the one before the first."""
    return list(accumulate((look.flow for look in looks), compose))


def _flows_to_end(looks: Sequence[Look]) -> list[Flow | None]:
    """From the one before each of some frames in a row to the last."""
    return list(accumulate((look.flow_to_it() for look in reversed(looks)), compose))[::-1]


class _Place(NamedTuple):
    """A side of a frame that may still be worked on."""

    anchor: Future[Anchor]
    flow: Flow | None
    """To it, as composed."""
    number: int
    """Of its frame, counted from the left anchor."""


def _show(corrected: Future[Anchor]) -> Blended:
    anchor = corrected.result()
    return anchor.shown.copy(), anchor.mask
