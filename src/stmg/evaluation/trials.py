"""Trials of `tune`: ways estimated from remembered outputs of the network, or measured with the network running.

The network runs once over all frames. From its outputs follow the exact labels of any way. Its speed is estimated: the
time of the way without the network, plus the times of the network.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stmg.evaluation.accuracy import ConfusionMatrix
from stmg.evaluation.inputs import Clip, Subject, check_classes, count_classes
from stmg.evaluation.live import DelayedExecutor
from stmg.evaluation.measure import measure_ways
from stmg.evaluation.rows import Latency, Row, Timing, percent
from stmg.evaluation.speed import mean_ms
from stmg.evaluation.streams import Stream, open_way
from stmg.evaluation.way import BASE, Way, apply_way
from stmg.segmenter import VideoSegmenter
from stmg.streaming.audit import compare
from stmg.streaming.flow import Flow, Map, warp
from stmg.streaming.motion import DisMotion, make_view
from stmg.streaming.realtime import RealtimeStream
from stmg.streaming.result import FrameResult
from stmg.streaming.runtime import Output, Runtime
from stmg.streaming.schedulers import Level
from stmg.streaming.tracker import estimate_step
from stmg.streaming.working_size import shrink
from stmg.video.frames import Frame, Image
from stmg.video.labels import Labels, resize_labels


class Segment(NamedTuple):
    """Consecutive frames of a clip, which a stream is run over."""

    start: int
    stop: int


class Replay(Runtime):
    """A runtime that gives remembered outputs of a network, by the identity of the image's array."""

    one_at_a_time = False

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._logits: dict[int, Any] = {}
        self.input_size, self.num_classes = runtime.input_size, runtime.num_classes
        self.foreground = runtime.foreground

    @property
    def description(self) -> str:
        return f"replay of {self._runtime.description}"

    def remember(self, image: Image, logits: Any) -> None:
        """Keep the output for an image, which must outlive this object."""
        self._logits[id(image)] = logits

    def prepare(self, image: Image) -> int:
        return id(image)

    def full(self, prepared: int) -> Output:
        return Output(self._logits[prepared])

    def fuse(self, now: Any, before: Any, flow: Flow | None, share: Map) -> Any:
        return self._runtime.fuse(now, before, flow, share)

    def labels(self, logits: Any, size: tuple[int, int]) -> Labels:
        return self._runtime.labels(logits, size)

    def probability(self, logits: Any, size: tuple[int, int]) -> Map | None:
        return self._runtime.probability(logits, size)

    def logits_array(self, logits: Any) -> NDArray[np.float32] | None:
        return self._runtime.logits_array(logits)


@dataclass(frozen=True)
class Candidate:
    """A model to choose from, and its output for every frame of a clip."""

    subject: Subject
    frames: list[Frame]
    """Frames of the clip at the size of the model."""
    replay: Replay
    labels: list[Labels]
    """Labels of every frame of the clip, at the clip's size."""
    times: list[float]
    """Milliseconds of the network for every frame."""
    argmax_ms: float

    def base_ms(self, parts: Sequence[Segment]) -> float:
        """Median milliseconds of the network on a frame."""
        return float(np.median([ms for part in parts for ms in self.times[part.start : part.stop]]))

    def is_of(self, way: Way, first: Candidate) -> bool:
        """True if a way runs with this model at this size."""
        model = first.subject.name if way.model is None else way.model
        return (self.subject.name, self.subject.size) == (model, way.size or first.subject.size)


def compute_candidate(subject: Subject, clip: Clip, on_frame: Callable[[int], None]) -> Candidate:
    """Run a model on every frame, timed; `on_frame` is called with the number of frames so far."""
    if clip.dataset is not None:
        check_classes(subject, count_classes(subject), clip.dataset)
    unsteered = subject.segmenter.another(max_change=None, size=None, model_size=None, mode=None)
    subject = subject._replace(segmenter=unsteered)
    runtime = subject.segmenter.runtime
    replay, labels, times = Replay(runtime), [], []
    size = clip.frames[0].size
    frames = clip.frames if subject.size == size else [shrink(frame, subject.size) for frame in clip.frames]
    runtime.full(runtime.prepare(frames[0].image))  # warm up: the first run of a network is slow
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


def measure_flicker(candidate: Candidate, clip: Clip, parts: Sequence[Segment]) -> float:
    """The share of pixels that a network labels differently from one frame to the next, after warping."""
    motion, shares = DisMotion(), [0.0]
    for part in parts:
        views = [make_view(frame, motion.view_width) for frame in clip.frames[part.start : part.stop]]
        for at in range(1, len(views)):
            step = estimate_step(motion, views[at - 1], views[at])
            if not step.is_cut:
                before, now = candidate.labels[part.start + at - 1], candidate.labels[part.start + at]
                shares.append(compare(warp(before, step.flow, nearest=True), now, 1).changed)
    return float(np.mean(shares[1:] or shares))


class Trials:
    """Runs ways over parts of a clip, beside the first model on every frame."""

    def __init__(self, first: Candidate, clip: Clip) -> None:
        self.first, self.clip, self.rate = first, clip, clip.rate
        self._base_mious: dict[tuple[Segment, ...], float | None] = {}

    def estimate(self, candidate: Candidate, way: Way, parts: Sequence[Segment]) -> Row:
        """Estimate the row of a way from remembered outputs and times of the network."""
        base_ms = candidate.base_ms(parts)
        if way.kind == "base":
            whole = [each for part in parts for each in candidate.labels[part.start : part.stop]]
            times = [ms for part in parts for ms in candidate.times[part.start : part.stop]]
            return self._row(way, parts, whole, len(whole), base_ms, Latency.of(times))
        settings = apply_way(way, candidate.subject.segmenter).settings
        results: list[list[FrameResult]] = []
        runs, spent = 0, 0.0
        for part in parts:
            frames = candidate.frames[part.start : part.stop]
            if way.mode == "realtime":
                assert self.rate is not None
                executor = DelayedExecutor(max(1, math.ceil(base_ms * self.rate / 1000)))
                stream = RealtimeStream(candidate.replay, settings, executor)
                results.append([])
                for frame in frames:
                    executor.tick()
                    results[-1].append(stream.step(frame))
                runs += executor.num_runs
            else:
                player = VideoSegmenter(candidate.replay, settings=settings)
                started = time.perf_counter()
                results.append(list(player.stream(frames, mode=way.mode)))
                spent += 1000 * (time.perf_counter() - started)
                runs += sum(result.computed for result in results[-1])
        labels = [result.labels for some in results for result in some]
        if way.mode == "realtime":
            assert self.rate is not None
            latencies = [result.latency_ms for some in results for result in some[1:]]  # the first frame waits
            fps = min(self.rate, 1000 / max(float(np.mean(latencies)), 1e-3))
            return self._row(way, parts, labels, runs, 1000 / fps, Latency.of(latencies))
        # A replayed key frame still computes its argmax, which the network's own time already includes.
        extra = base_ms - candidate.argmax_ms
        frame_ms = spent / len(labels) + runs / len(labels) * max(0.0, extra)
        latencies = [result.latency_ms + extra * result.computed for some in results for result in some]
        return self._row(way, parts, labels, runs, frame_ms, Latency.of(latencies))

    def measure(self, candidate: Candidate, way: Way, parts: Sequence[Segment]) -> Row:
        """Measure the row of a way with the network running, in turns with the first model on every frame."""
        streams = [self._open(self.first, BASE)]
        if way != BASE:
            streams.append(self._open(candidate, way))
        clip = _cut(self.clip, parts)
        results: dict[int, FrameResult] = {}

        def keep(of: Way, index: int, result: FrameResult) -> None:
            if of == way:
                results[index] = result

        measured = measure_ways(streams, clip, 0, on_result=keep, base_passes=False)  # scored below, by `_score`
        labels = [results[index].labels for index in range(len(clip.frames))]
        base_ms = 1000 / measured.stepped[BASE].fps()[0]
        if way in measured.live:
            live = measured.live[way]
            return self._row(way, parts, labels, live.network_runs, 1000 / live.rate, live.latency, base_ms)
        runs = sum(result.level is Level.KEY for result in results.values())
        times = measured.times(way)
        return self._row(way, parts, labels, runs, 1000 / times.fps()[0], Latency.of(times.all), base_ms)

    def _open(self, candidate: Candidate, way: Way) -> Stream:
        size = candidate.subject.size
        own = None if size == self.clip.frames[0].size else size
        return open_way(way, candidate.subject.segmenter.another(size=own), scored=False)

    def _row(
        self,
        way: Way,
        parts: Sequence[Segment],
        labels: Sequence[Labels],
        runs: int,
        frame_ms: float,
        latency: Latency,
        base_ms: float | None = None,
    ) -> Row:
        """runs: of the network. frame_ms: of a mean frame. base_ms: of the first model; the remembered one if None."""
        changed, miou = self._score(parts, labels)
        base = self._base_miou(parts)
        loss = None if miou is None or not base else 100 * (1 - miou / base)
        timing = Timing(
            fps=round(1000 / frame_ms, 3),
            gain=round((base_ms or self.first.base_ms(parts)) / frame_ms, 4),
            latency=None if way.mode == "offline" else latency,  # offline frames wait for later ones
        )
        return Row(
            way=way,
            frames=len(labels),
            network_share=percent(runs / len(labels)),
            changed=round(changed, 6),
            miou=None if miou is None else round(miou, 3),
            loss=None if loss is None else round(loss, 3),
            timing=timing,
        )

    def _base_miou(self, parts: Sequence[Segment]) -> float | None:
        """mIoU of the first model on every frame."""
        key = tuple(parts)
        if key not in self._base_mious:
            whole = [each for part in parts for each in self.first.labels[part.start : part.stop]]
            self._base_mious[key] = self._score(parts, whole)[1]
        return self._base_mious[key]

    def _score(self, parts: Sequence[Segment], labels: Sequence[Labels]) -> tuple[float, float | None]:
        """Share of pixels that differ from the first model's, and the mIoU in percent if there are labels."""
        changed, counts = [], None
        if self.clip.dataset is not None:
            counts = ConfusionMatrix(self.clip.dataset.num_classes)
        indices = [index for part in parts for index in range(part.start, part.stop)]
        for index, each in zip(indices, labels, strict=True):
            each = resize_labels(each, self.first.labels[index].shape)
            changed.append(compare(each, self.first.labels[index], 0).changed)
            truth = self.clip.truths[index]
            if counts is not None and truth is not None:
                counts.add(each, truth)
        miou = math.nan if counts is None else 100 * counts.mean_iou()
        return float(np.mean(changed)), None if math.isnan(miou) else miou


def _cut(clip: Clip, parts: Sequence[Segment]) -> Clip:
    """Parts of a clip as a clip, each part a video."""
    starts: set[int] = set()
    frames: list[Frame] = []
    truths: list[Labels | None] = []
    for part in parts:
        starts.add(len(frames))
        frames += clip.frames[part.start : part.stop]
        truths += clip.truths[part.start : part.stop]
    return clip._replace(frames=frames, truths=truths, starts=starts)
