"""Benchmark: speed, cost and accuracy of a model in each mode beside its base network and baselines, on one stream."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from stmg.errors import SettingsError
from stmg.evaluation.entries import Entry, make_entries
from stmg.evaluation.inputs import Subject, describe_settings, open_model
from stmg.evaluation.machine import busy_warning, this_machine
from stmg.evaluation.measuring.accuracy import ConfusionMatrix
from stmg.evaluation.measuring.clip import Clip, read_clip, split_videos
from stmg.evaluation.measuring.live import run_live
from stmg.evaluation.measuring.memory import peak_memory
from stmg.evaluation.measuring.speed import TURN, Times, mean_ms, time_interleaved, time_passes, value_range
from stmg.evaluation.method import BASE, ONLINE, Method
from stmg.evaluation.results import (
    BenchmarkResult,
    BenchmarkRow,
    PassRow,
    RealtimeRow,
    Size,
    SizeBenchmark,
    percent,
)
from stmg.models.load import resolve
from stmg.models.spec import ModelSpec, as_spec
from stmg.streaming.settings import Mode, check_mode
from stmg.streaming.state import FrameResult
from stmg.video.addresses import hide_credentials
from stmg.video.frames import Frame

MODES: tuple[Mode, ...] = ("online", "offline", "realtime")
MEMORY_FRAMES = 12
RATE = 15.0  # frames per second of a source that does not know its own


class Progress(NamedTuple):
    """How far a benchmark is."""

    size: Size
    method: Method
    done: int
    total: int
    """Frames at this size, of all methods and repeats."""


def benchmark(
    model: ModelSpec | str | Path,
    source: str | Path,
    *,
    sizes: Sequence[Size] = (),
    frames: int = 100,
    repeats: int = 3,
    mode: str | None = None,
    rate: float | None = None,
    baselines: bool = False,
    smaller: Sequence[str] = (),
    beside: Sequence[str | Path] = (),
    on_frame: Callable[[Progress], None] | None = None,
) -> BenchmarkResult:
    """FPS, latency, MACs and memory of a model in each mode, beside its base network; mIoU if there are labels.

    What is stepped runs in turns of a few frames. Offline works on several frames at once, so it is timed over whole
    passes by the clock on the wall, in turns with passes of the base network. Realtime gets its frames at their times.

    model: what `stmg.load` takes, or a bare network such as ddrnet39, which may be without weights here.
    source: a dataset, of which its split `val` is used, or a video.
    sizes: frame sizes to measure at; if none is given, what the model is meant for.
    mode: offline, online or realtime alone; if not given, all of them.
    rate: frames per second in realtime; if not given, the source's own, 15 if that is unknown.
    baselines: also copied labels, warped logits and half resolution, and streams at other budgets.
    smaller: other models to run on every frame.
    beside: exports of the same model for other runtimes, or as INT8, in the same modes.

    After Ctrl-C the result has the sizes until then, and `interrupted` is True.
    """
    spec = as_spec(model).with_options(untrained=True)
    modes = tuple(filter(spec.settings.can_run, MODES)) if mode is None else (check_mode(mode),)
    if rate is not None and ("realtime" not in modes or rate <= 0):
        raise SettingsError(f"rate is for realtime, in frames per second above 0; got {rate:g} and the mode {mode}")
    warning = busy_warning()
    runs: list[SizeBenchmark] = []
    interrupted = False
    for size in sizes or (None,):
        subject = open_model(spec, size)
        try:
            clip = read_clip(str(source), subject.size, frames)
            clip = clip._replace(rate=rate or clip.rate or RATE)
            at_size = spec.with_options(size=subject.size)
            entries = make_entries(subject, at_size, clip, modes, baselines, smaller, beside)
            runs.append(_Measurement(subject, entries, clip, repeats, on_frame).run(modes))
        except KeyboardInterrupt:
            if not runs:
                raise
            interrupted = True
            break
    return BenchmarkResult(
        machine=this_machine(),
        model=spec.name,
        interrupted=interrupted,
        source=hide_credentials(str(source)),
        repeats=repeats,
        warning=warning,
        sizes=tuple(runs),
    )


class _Pass(NamedTuple):
    """A method over all frames, in one of the modes it can be run in."""

    method: Method
    mode: Mode


class _Measurement:
    """Every method over the clip, at one size."""

    def __init__(
        self,
        subject: Subject,
        entries: dict[Method, Entry],
        clip: Clip,
        repeats: int,
        on_frame: Callable[[Progress], None] | None,
    ) -> None:
        self.subject, self.entries, self.clip, self.repeats = subject, entries, clip, repeats
        num_classes = clip.dataset.num_classes if clip.dataset else 0
        self.counts = {method: ConfusionMatrix(num_classes) for method, entry in entries.items() if entry.scored}
        self.stepped, self.offline, self.live = (
            {method: entry for method, entry in entries.items() if entry.mode == mode} for mode in MODES
        )
        self.passes = self._choose_passes()
        self.first: FrameResult | None = None
        self._on_frame, self._done = on_frame, 0
        turns = len(self.stepped) * repeats
        passes = len(self.offline) + len(self.passes) * repeats
        self._total = len(clip.frames) * (turns + passes + len(self.live))

    def run(self, modes: Sequence[Mode]) -> SizeBenchmark:
        clip = self.clip
        times = self._time_turns()
        by_wall = self._time_passes()
        assert self.first is not None
        draw_ms = mean_ms(self.first.plot)
        outside_ms = (clip.read_ms or 0.0) + draw_ms
        measured = [
            self._row(method, by_wall if method in self.offline else times, outside_ms)
            for method in self.entries
            if method not in self.live
        ]
        return SizeBenchmark(
            size=self.subject.size,
            frames=len(clip.frames),
            frames_per_turn=TURN,
            settings="; ".join(describe_settings(self.subject.segmenter, mode) for mode in modes),
            runtime=self.subject.segmenter.runtime.description,
            read_ms=None if clip.read_ms is None else round(clip.read_ms, 3),
            draw_ms=round(draw_ms, 3),
            rows=tuple(measured),
            passes=tuple(_pass_row(method, by_wall) for method in by_wall),
            realtime=tuple(self._play_live(method, entry) for method, entry in self.live.items()),
        )

    def _choose_passes(self) -> list[_Pass]:
        """What is timed over whole passes: offline, and for comparison the base network and online beside it.

        Offline computes several frames at once where that is faster. So may the base network: it runs both ways.
        """
        chosen: dict[_Pass, None] = {}
        for method in self.offline:
            for each in (BASE, method.reference, replace(method.reference, kind="online"), method):
                if each in self.entries:
                    chosen[_Pass(each, self.entries[each].mode)] = None
                    if each.kind == "base":
                        chosen[_Pass(each, "offline")] = None
        return list(chosen)

    def _time_turns(self) -> dict[Method, Times]:
        """What can be stepped, in turns."""

        def add(method: Method, repeat: int, index: int, result: FrameResult) -> None:
            if repeat == 0:
                self._score(method, index, result)
            if self.first is None:
                self.first = result
            self._progress(method, 1)

        steppers = {method: entry.stepper for method, entry in self.stepped.items()}
        return time_interleaved(steppers, self.clip.frames, self.repeats, add, self.clip.starts)

    def _time_passes(self) -> dict[Method, Times]:
        """Whole passes, of a method in several modes the fastest one.

        Before them each offline stream runs once, uncounted, to be scored.
        """
        videos = split_videos(self.clip)

        def play(each: _Pass) -> Iterator[FrameResult]:
            for video in videos:
                yield from self.entries[each.method].segmenter.stream(video, mode=each.mode)

        with ExitStack() as exact:
            for each in self.passes:
                exact.enter_context(self.entries[each.method].stepper.runtime.exact_patterns())
            for method in self.offline:
                for index, result in enumerate(play(_Pass(method, "offline"))):
                    self._score(method, index, result)
                    self._progress(method, 1)
            streams = {each: partial(play, each) for each in self.passes}
            frames = len(self.clip.frames)
            times = time_passes(streams, self.repeats, lambda each: self._progress(each.method, frames))
        slowest_first = sorted(times, key=lambda each: float(np.median(times[each].fps())))
        fastest = {each.method: times[each] for each in slowest_first}
        return {each.method: fastest[each.method] for each in self.passes}

    def _row(self, method: Method, times: dict[Method, Times], outside_ms: float) -> BenchmarkRow:
        entry, mine = self.entries[method], times[method]
        sample = [Frame(frame.image) for frame in self.clip.frames[:MEMORY_FRAMES]]
        recorded = method in (BASE, ONLINE)
        to_model = None if method.reference == BASE else mine.ratios(times[BASE])
        memory = None if entry.spec is None else peak_memory(partial(resolve, entry.spec), sample, entry.mode)
        return BenchmarkRow(
            method=method,
            miou=self._miou(method),
            timing=mine.relative_to(times[method.reference], outside_ms),
            model_gain=None if to_model is None else round(float(np.median(to_model)), 4),
            model_gain_range=None if to_model is None else value_range(to_model),
            peak_memory=memory,
            latencies=tuple(round(ms, 3) for ms in mine.repeats[0]) if recorded else (),
            levels=tuple(mine.levels) if recorded else (),
        )

    def _play_live(self, method: Method, entry: Entry) -> RealtimeRow:
        frames, rate = self.clip.frames, self.clip.rate
        assert rate is not None
        shown: list[FrameResult] = []
        live = run_live(entry.segmenter, split_videos(self.clip), rate, shown.append)
        for index, result in enumerate(shown):
            self._score(method, index, result)
        self._progress(method, len(frames))
        return RealtimeRow(
            method=method,
            rate=round(rate, 3),
            miou=self._miou(method),
            latency=live.latency,
            mean_age=live.mean_age,
            p95_age=live.p95_age,
            network_runs=live.network_runs,
            frames=len(frames),
            dropped=live.dropped,
            stale=live.stale,
        )

    def _score(self, method: Method, index: int, result: FrameResult) -> None:
        truth = self.clip.truths[index]
        if truth is not None and method in self.counts:
            self.counts[method].add(result.labels, truth)

    def _miou(self, method: Method) -> float | None:
        return percent(self.counts[method].mean_iou()) if method in self.counts else None

    def _progress(self, method: Method, frames: int) -> None:
        self._done += frames
        if self._on_frame is not None:
            self._on_frame(Progress(self.subject.size, method, self._done, self._total))


def _pass_row(method: Method, times: dict[Method, Times]) -> PassRow:
    fps, ratios = times[method].fps(), times[method].ratios(times[method.reference])
    middle, gain = (round(float(np.median(values)), 4) for values in (fps, ratios))
    return PassRow(method, middle, value_range(fps), gain, value_range(ratios))
