"""Lanes: the streams that an evaluation runs beside each other, one for each mode and setting."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from stmg.errors import SettingsError
from stmg.evaluation.delayed import DelayedExecutor, LastFinished
from stmg.evaluation.inputs import describe_settings
from stmg.evaluation.meters import StreamMeter
from stmg.evaluation.results import Mode, ModeScores
from stmg.segmenter import VideoSegmenter
from stmg.streaming.cost import Cost
from stmg.streaming.schedulers import Level
from stmg.streaming.settings import MODES
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
    """A stream that is measured. This one is for results that come later than their frames: `take` gets them."""

    copied = False

    def __init__(self, segmenter: VideoSegmenter, mode: Mode, num_classes: int) -> None:
        self.segmenter, self.mode = segmenter, mode
        self.intervals: int | None = None
        self.meter = StreamMeter(num_classes)
        self._distances = self._computed = self._stale = 0

    def start_video(self) -> None:
        self.meter.consistency.forget()

    def answer(self, frame: Frame, whole: FrameResult) -> Answer | None:
        """The next frame's, where the lane answers at once; `whole` is the base network's."""
        return None

    def take(self, result: FrameResult) -> Answer:
        """A result that came later."""
        return Answer(result, result.anchor_distance, result.level is not Level.CARRY)

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
            settings="" if self.copied else describe_settings(self.segmenter, self.mode),
            network_share=round(100 * self._computed / frames, 2),
            mean_distance=round(self._distances / frames, 3),
            stale_share=round(100 * self._stale / frames, 2),
            scores=self.meter.scores(class_names),
        )


class OnlineLane(Lane):
    """Frame by frame."""

    def start_video(self) -> None:
        super().start_video()
        self.segmenter.reset()
        self._distance = 0

    def answer(self, frame: Frame, whole: FrameResult) -> Answer:
        result = self.segmenter.step(frame)
        self._distance = 0 if result.level is Level.KEY else self._distance + 1
        return Answer(result, self._distance, result.level is not Level.CARRY)


class RealtimeLane(Lane):
    """Realtime with a network that takes so many frame intervals."""

    def __init__(self, segmenter: VideoSegmenter, num_classes: int, intervals: int) -> None:
        super().__init__(segmenter, "realtime", num_classes)
        self.intervals = intervals

    def start_video(self) -> None:
        super().start_video()
        assert self.intervals is not None
        self._executor = DelayedExecutor(self.intervals)
        self._next: deque[Frame] = deque()
        frames = iter(self._next.popleft, None)  # a live stream takes one frame for each result
        self._results = self.segmenter.stream(frames, mode="realtime", executor=self._executor)

    def answer(self, frame: Frame, whole: FrameResult) -> Answer:
        before = self._executor.num_runs
        self._executor.tick()
        self._next.append(frame)
        result = next(self._results)
        return Answer(result, result.anchor_distance, self._executor.num_runs > before)


class CopiedLane(RealtimeLane):
    """The last finished labels, shown as they are."""

    copied = True

    def start_video(self) -> None:
        super().start_video()
        assert self.intervals is not None
        self._last = LastFinished(self.intervals)

    def answer(self, frame: Frame, whole: FrameResult) -> Answer:
        labels, age, started = self._last.show(whole.labels)
        level = Level.CARRY if age else Level.KEY
        cost = whole.cost if started else Cost()
        result = replace(whole, labels=labels, level=level, anchor_distance=age, cost=cost)
        return Answer(result, age, started)


def make_lanes(
    segmenter: VideoSegmenter, num_classes: int, mode: str | None, network_intervals: Sequence[int] | None
) -> list[Lane]:
    """The lanes of a mode; online and offline if none is chosen."""
    if mode not in (None, *MODES):
        raise SettingsError(f"mode is one of {', '.join(MODES)}; got {mode!r}")
    if network_intervals is not None and mode != "realtime":
        raise SettingsError(f"network_intervals are for realtime; mode is {mode or 'not given'}")
    intervals = NETWORK_INTERVALS if network_intervals is None else network_intervals
    if not intervals or any(each < 1 for each in intervals):
        raise SettingsError(f"network_intervals are whole numbers from 1; got {', '.join(map(str, intervals))}")
    if mode == "realtime":
        kinds = (RealtimeLane, CopiedLane)
        return [kind(segmenter.another(), num_classes, each) for each in intervals for kind in kinds]
    lanes: list[Lane] = []
    if mode in (None, "online"):
        lanes.append(OnlineLane(segmenter.another(), "online", num_classes))
    if mode in (None, "offline"):
        lanes.append(Lane(segmenter.another(), "offline", num_classes))
    return lanes
