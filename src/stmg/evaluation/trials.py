"""Trials: settings over the frames of a clip, estimated from the network's remembered answers or measured for real.

The network runs once over all frames. Its answers give the labels of any setting exactly, and its times, added to what
the setting takes beside the network, the speed.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from stmg.evaluation.inputs import Subject, check_classes, count_classes
from stmg.evaluation.measuring.accuracy import ConfusionMatrix
from stmg.evaluation.measuring.clip import Clip
from stmg.evaluation.measuring.delayed import DelayedExecutor
from stmg.evaluation.measuring.live import run_live
from stmg.evaluation.measuring.replay import Replay
from stmg.evaluation.measuring.speed import mean_ms
from stmg.evaluation.results import TuneOutcome, TuneSetting
from stmg.segmenter import VideoSegmenter
from stmg.streaming.audit import compare
from stmg.streaming.continuity import find_step
from stmg.streaming.flow import warp
from stmg.streaming.motion import DisMotion, make_view
from stmg.streaming.realtime import Realtime
from stmg.streaming.schedulers import AlwaysKey, DriftBudget, Level
from stmg.streaming.settings import Settings
from stmg.streaming.state import FrameResult
from stmg.streaming.working_size import shrink
from stmg.video.frames import Frame
from stmg.video.labels import Labels, resize_labels

AROUND = 6  # frames of the base network before and after what is measured beside it


class Segment(NamedTuple):
    """Frames of a clip in a row, that a stream is run over."""

    start: int
    stop: int


@dataclass(frozen=True)
class Candidate:
    """A model that takes part, and its answer to every frame."""

    subject: Subject
    frames: list[Frame]
    """Of the clip, at the size it works at."""
    replay: Replay
    labels: list[Labels]
    """Of every frame of the clip, at the clip's size."""
    times: list[float]
    """Milliseconds of every frame."""
    argmax_ms: float

    def time_network(self, frames: Sequence[Frame]) -> list[float]:
        """Milliseconds of the network on each of some frames, now."""
        runtime, times = self.subject.segmenter.runtime, []
        for frame in frames:
            started = time.perf_counter()
            runtime.labels(runtime.full(runtime.prepare(frame.image)).logits, frame.size)
            times.append(1000 * (time.perf_counter() - started))
        return times

    def base_ms(self, parts: Sequence[Segment]) -> float:
        """Of the network on every frame."""
        return float(np.median([ms for part in parts for ms in self.times[part.start : part.stop]]))


def compute_candidate(subject: Subject, clip: Clip, on_frame: Callable[[int], None]) -> Candidate:
    """A model on every frame, timed and remembered; `on_frame` is called with the number of frames so far."""
    if clip.dataset is not None:
        check_classes(subject, count_classes(subject), clip.dataset)
    runtime = subject.segmenter.runtime
    replay, labels, times = Replay(runtime), [], []
    size = clip.frames[0].size
    frames = clip.frames if subject.size == size else [shrink(frame, subject.size) for frame in clip.frames]
    runtime.full(runtime.prepare(frames[0].image))  # the first run of a network is not like the others
    for number, frame in enumerate(frames):
        started = time.perf_counter()
        output = runtime.full(runtime.prepare(frame.image))
        labels.append(runtime.labels(output.logits, size))
        times.append(1000 * (time.perf_counter() - started))
        replay.remember(frame.image, output.logits)
        on_frame(number + 1)
    frame = frames[0]
    argmax_ms = mean_ms(lambda: runtime.labels(replay.full(id(frame.image)).logits, frame.size), seconds=0.2)
    return Candidate(subject, frames, replay, labels, times, argmax_ms)


def scheduler_of(setting: TuneSetting) -> DriftBudget | AlwaysKey:
    """The scheduler of a setting."""
    if setting.budget is None or setting.longest is None:
        return AlwaysKey()
    return DriftBudget(setting.budget, longest=setting.longest)


def measure_flicker(candidate: Candidate, clip: Clip, parts: Sequence[Segment]) -> float:
    """The share of pixels that a network labels differently from one frame to the next, motion followed."""
    motion, shares = DisMotion(), [0.0]
    for part in parts:
        views = [make_view(frame, motion.view_width) for frame in clip.frames[part.start : part.stop]]
        for at in range(1, len(views)):
            step = find_step(motion, views[at - 1], views[at])
            if not step.is_cut:
                before, now = candidate.labels[part.start + at - 1], candidate.labels[part.start + at]
                shares.append(compare(warp(before, step.flow, nearest=True), now, 1).changed)
    return float(np.mean(shares[1:] or shares))


class Trials:
    """Settings over the frames of a clip, beside the first model on every frame."""

    def __init__(self, first: Candidate, clip: Clip) -> None:
        self.first, self.clip, self.rate = first, clip, clip.rate
        self._base_mious: dict[tuple[Segment, ...], float | None] = {}

    def estimate(self, candidate: Candidate, setting: TuneSetting, parts: Sequence[Segment]) -> TuneOutcome:
        """What a setting would do, from the network's answers and times as they are known."""
        base_ms = candidate.base_ms(parts)
        if setting.mode == "every frame":
            labels = [candidate.labels[part.start : part.stop] for part in parts]
            times = [ms for part in parts for ms in candidate.times[part.start : part.stop]]
            return self._outcome(setting, parts, labels, 1.0, base_ms, _p95(times))
        settings = self._settings(candidate, setting)
        results: list[list[FrameResult]] = []
        runs, spent = 0, 0.0
        for part in parts:
            frames = candidate.frames[part.start : part.stop]
            if setting.mode == "realtime":
                some, count = self._replay_realtime(candidate, settings, frames, base_ms)
            else:
                player = VideoSegmenter(candidate.replay, settings=settings)
                started = time.perf_counter()
                some = list(player.stream(frames, mode=setting.mode))
                spent += 1000 * (time.perf_counter() - started)
                count = sum(result.level is Level.KEY for result in some)
            results.append(some)
            runs += count
        number = sum(map(len, results))
        share = runs / number
        labels = [[result.labels for result in some] for some in results]
        if setting.mode == "realtime":
            assert self.rate is not None
            latencies = [result.latency_ms for some in results for result in some[1:]]
            answer = min(self.rate, 1000 / max(float(np.mean(latencies)), 1e-3))
            return self._outcome(setting, parts, labels, share, 1000 / answer, _p95(latencies))
        # A replayed key frame still takes its argmax, which the network's own time has in it.
        mean = spent / number + share * max(0.0, base_ms - candidate.argmax_ms)
        extra = base_ms - candidate.argmax_ms
        latencies = [result.latency_ms + extra * (result.level is Level.KEY) for some in results for result in some]
        return self._outcome(setting, parts, labels, share, mean, _p95(latencies))

    def measure(self, candidate: Candidate, setting: TuneSetting, parts: Sequence[Segment]) -> TuneOutcome:
        """What a setting does, with the network running; the first model is timed again before and after each run."""
        settings = self._settings(candidate, setting)
        base: list[float] = []
        labels: list[list[Labels]] = []
        latencies: list[float] = []
        runs, spent, number = 0, 0.0, 0
        for part in parts:
            frames = candidate.frames[part.start : part.stop]
            segmenter = VideoSegmenter(candidate.subject.segmenter.runtime, settings=settings)
            base += self.first.time_network(self.first.frames[part.start : part.stop][:AROUND])
            if setting.mode == "realtime":
                assert self.rate is not None
                some: list[FrameResult] = []
                figures = run_live(segmenter, [frames], self.rate, some.append)
                runs += figures.network_runs
                spent += 1000 * len(frames) / self.rate
                latencies += figures.latencies
            else:
                mode = "online" if setting.mode == "every frame" else setting.mode
                if mode == "offline":  # what is compiled for it is no part of the time
                    throughput = segmenter.runtime.for_throughput()
                    throughput.full(throughput.prepare(frames[0].image))
                started = time.perf_counter()
                some = list(segmenter.stream(frames, mode=mode))
                spent += 1000 * (time.perf_counter() - started)
                runs += sum(result.level is Level.KEY for result in some)
                latencies += [result.latency_ms for result in some]
            base += self.first.time_network(self.first.frames[part.start : part.stop][-AROUND:])
            labels.append([result.labels for result in some])
            number += len(some)
        outcome = self._outcome(setting, parts, labels, runs / number, spent / number, _p95(latencies))
        return replace(outcome, gain=round(float(np.median(base)) * number / spent, 4))

    def _settings(self, candidate: Candidate, setting: TuneSetting) -> Settings:
        segmenter, scheduler = candidate.subject.segmenter, scheduler_of(setting)
        own = segmenter.settings
        # What fusion is worth only labels can say; against the network's own it counts as a change.
        fusion = own.fusion if self.clip.dataset is not None else 0.0
        base = replace(own, fusion=fusion, max_change=None, size=None, model_size=None, mode=None)
        if setting.motion is not None:
            base = replace(base, motion=setting.motion)  # type: ignore[arg-type]
        return base if setting.mode == "realtime" else replace(base, scheduler=scheduler)

    def _replay_realtime(
        self, candidate: Candidate, settings: Settings, frames: Sequence[Frame], base_ms: float
    ) -> tuple[list[FrameResult], int]:
        assert self.rate is not None
        executor = DelayedExecutor(max(1, math.ceil(base_ms * self.rate / 1000)))
        stream = Realtime(candidate.replay, settings, executor)
        results = []
        for frame in frames:
            executor.tick()
            results.append(stream.step(frame))
        return results, executor.num_runs

    def _outcome(
        self,
        setting: TuneSetting,
        parts: Sequence[Segment],
        labels: Sequence[Sequence[Labels]],
        key_share: float,
        mean_ms: float,
        latency: float,
    ) -> TuneOutcome:
        changed, miou = self._score(parts, labels)
        base = self._base_miou(parts)
        loss = None if miou is None or not base else 100 * (1 - miou / base)
        return TuneOutcome(
            setting=setting,
            key_share=round(key_share, 5),
            changed=round(changed, 6),
            miou=None if miou is None else round(miou, 3),
            loss=None if loss is None else round(loss, 3),
            fps=round(1000 / mean_ms, 3),
            gain=round(self.first.base_ms(parts) / mean_ms, 4),
            latency_ms=None if setting.mode == "offline" else round(latency, 3),
        )

    def _base_miou(self, parts: Sequence[Segment]) -> float | None:
        """Of the first model on every frame."""
        key = tuple(parts)
        if key not in self._base_mious:
            whole = [self.first.labels[part.start : part.stop] for part in parts]
            self._base_mious[key] = self._score(parts, whole)[1]
        return self._base_mious[key]

    def _score(self, parts: Sequence[Segment], labels: Sequence[Sequence[Labels]]) -> tuple[float, float | None]:
        """The share of pixels that differ from the first model's, and the mIoU in percent where there are labels."""
        changed, counts = [], None
        if self.clip.dataset is not None:
            counts = ConfusionMatrix(self.clip.dataset.num_classes)
        for part, some in zip(parts, labels, strict=True):
            for index, each in enumerate(some, part.start):
                each = resize_labels(each, self.first.labels[index].shape)
                changed.append(compare(each, self.first.labels[index], 0).changed)
                truth = self.clip.truths[index]
                if counts is not None and truth is not None:
                    counts.add(each, truth)
        miou = math.nan if counts is None else 100 * counts.mean_iou()
        return float(np.mean(changed)), None if math.isnan(miou) else miou


def _p95(latencies: Sequence[float]) -> float:
    return float(np.percentile(latencies, 95)) if len(latencies) else 0.0
