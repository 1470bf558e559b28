"""Lanes: the streams that an evaluation runs beside each other, one for each mode and setting."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import NamedTuple

from stmg.errors import SettingsError
from stmg.evaluation.inputs import describe_settings
from stmg.evaluation.measuring.delayed import DelayedExecutor, LastFinished
from stmg.evaluation.measuring.meters import StreamMeter
from stmg.evaluation.results import ModeScores
from stmg.segmenter import VideoSegmenter
from stmg.streaming.cost import Cost
from stmg.streaming.schedulers import Level
from stmg.streaming.settings import Mode, check_mode
from stmg.streaming.state import FrameResult
from stmg.video.frames import Frame

NETWORK_INTERVALS = (1, 2, 4)


class Answer(NamedTuple):
    """What a lane gave for a frame."""

    result: FrameResult
    distance: int
    """Frames to the one that the labels come from."""
    computed: bool
    """Whether the frame was given to the network."""


class Lane:
    """A stream that is measured: what its frames add up to. Subclasses say how frames are answered."""

    mode: Mode
    intervals: int | None = None
    """Of realtime: the frame intervals that the network takes."""
    copied = False

    def __init__(self, num_classes: int) -> None:
        self.meter = StreamMeter(num_classes)
        self._distances = self._computed = self._stale = 0

    def describe(self) -> str:
        """How it is segmented, in words."""
        raise NotImplementedError

    def start_video(self) -> None:
        self.meter.consistency.forget()

    def count(self, answer: Answer) -> None:
        self._distances += answer.distance
        self._computed += answer.computed
        self._stale += answer.result.stale

    def scores(self, class_names: tuple[str, ...]) -> ModeScores:
        frames = max(1, self.meter.figures.num_frames)
        return ModeScores(
            mode=self.mode,
            network_intervals=self.intervals,
            copied=self.copied,
            settings=self.describe(),
            network_share=round(100 * self._computed / frames, 2),
            mean_distance=round(self._distances / frames, 3),
            stale_share=round(100 * self._stale / frames, 2),
            scores=self.meter.scores(class_names),
        )


class SegmenterLane(Lane):
    """A segmenter in one of its modes."""

    def __init__(self, segmenter: VideoSegmenter, num_classes: int) -> None:
        super().__init__(num_classes)
        self.segmenter = segmenter

    def describe(self) -> str:
        return describe_settings(self.segmenter, self.mode)


class OnlineLane(SegmenterLane):
    """Frame by frame."""

    mode = "online"

    def start_video(self) -> None:
        super().start_video()
        self.segmenter.reset()
        self._distance = 0

    def answer(self, frame: Frame, whole: FrameResult) -> Answer:
        """The next frame's; `whole` is the base network's."""
        result = self.segmenter.step(frame)
        self._distance = 0 if result.level is Level.KEY else self._distance + 1
        return Answer(result, self._distance, result.level is not Level.CARRY)


class OfflineLane(SegmenterLane):
    """A whole video at once: answers come later than their frames."""

    mode = "offline"

    def answers(self, frames: Iterator[Frame]) -> Generator[Answer, None, None]:
        """Those of a video's frames, in order."""
        with closing(self.segmenter.stream(frames, mode="offline")) as results:  # type: ignore[type-var]
            for result in results:
                yield Answer(result, result.anchor_distance, result.level is not Level.CARRY)


class RealtimeLane(SegmenterLane):
    """Realtime with a network that takes so many frame intervals."""

    mode = "realtime"
    intervals: int

    def __init__(self, segmenter: VideoSegmenter, num_classes: int, intervals: int) -> None:
        super().__init__(segmenter, num_classes)
        self.intervals = intervals

    def start_video(self) -> None:
        super().start_video()
        self._executor = DelayedExecutor(self.intervals)
        self._next: deque[Frame] = deque()
        frames = iter(self._next.popleft, None)  # a live stream takes one frame for each result
        self._results = self.segmenter.stream(frames, mode="realtime", executor=self._executor)

    def answer(self, frame: Frame, whole: FrameResult) -> Answer:
        """The next frame's; `whole` is the base network's."""
        before = self._executor.num_runs
        self._executor.tick()
        self._next.append(frame)
        result = next(self._results)
        return Answer(result, result.anchor_distance, self._executor.num_runs > before)


class CopiedLane(Lane):
    """The last labels that a network of so many frame intervals has finished, shown as they are."""

    mode = "realtime"
    intervals: int
    copied = True

    def __init__(self, num_classes: int, intervals: int) -> None:
        super().__init__(num_classes)
        self.intervals = intervals

    def describe(self) -> str:
        return ""  # there is nothing to set

    def start_video(self) -> None:
        super().start_video()
        self._last = LastFinished(self.intervals)

    def answer(self, frame: Frame, whole: FrameResult) -> Answer:
        """The next frame's; `whole` is the base network's."""
        labels, age, started = self._last.show(whole.labels)
        level = Level.CARRY if age else Level.KEY
        cost = whole.cost if started else Cost()
        result = replace(whole, labels=labels, level=level, anchor_distance=age, cost=cost)
        return Answer(result, age, started)


SteppedLane = OnlineLane | RealtimeLane | CopiedLane
"""A lane that answers each frame at once."""


def make_lanes(
    segmenter: VideoSegmenter, num_classes: int, mode: str | None, network_intervals: Sequence[int] | None
) -> list[SteppedLane | OfflineLane]:
    """The lanes of a mode; online and offline if none is chosen."""
    if mode is not None:
        check_mode(mode)
    if network_intervals is not None and mode != "realtime":
        raise SettingsError(f"network_intervals are for realtime; mode is {mode or 'not given'}")
    intervals = NETWORK_INTERVALS if network_intervals is None else network_intervals
    if not intervals or any(each < 1 for each in intervals):
        raise SettingsError(f"network_intervals are whole numbers from 1; got {', '.join(map(str, intervals))}")
    lanes: list[SteppedLane | OfflineLane] = []
    if mode == "realtime":
        for each in intervals:
            lanes += [RealtimeLane(segmenter.another(), num_classes, each), CopiedLane(num_classes, each)]
    if mode in (None, "online"):
        lanes.append(OnlineLane(segmenter.another(), num_classes))
    if mode == "offline" or (mode is None and segmenter.settings.can_run("offline")):
        lanes.append(OfflineLane(segmenter.another(), num_classes))
    return lanes
