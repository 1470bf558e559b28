"""Benchmark: speed, cost and accuracy of a model in each mode beside its base network and baselines, on one stream."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from stmg.errors import SettingsError
from stmg.evaluation.inputs import Clip, Subject, open_model, read_clip, read_source_size
from stmg.evaluation.machine import busy_warning, this_machine
from stmg.evaluation.measure import count_frames, measure_ways
from stmg.evaluation.memory import peak_memory
from stmg.evaluation.results import BenchmarkResult, SizeBenchmark
from stmg.evaluation.rows import Row
from stmg.evaluation.speed import TURN, mean_ms, median_ratio, value_range
from stmg.evaluation.streams import Stream, open_streams
from stmg.evaluation.way import BASE, Size, Way, describe_settings
from stmg.models.load import resolve
from stmg.models.spec import ModelSpec, as_spec
from stmg.streaming.settings import Mode, check_mode
from stmg.video.addresses import hide_credentials
from stmg.video.frames import Frame

MODES: tuple[Mode, ...] = ("online", "offline", "realtime")
MEMORY_FRAMES = 12
RATE = 15.0  # FPS of a source whose own rate is unknown


class BenchmarkProgress(NamedTuple):
    """Progress of a benchmark."""

    size: Size
    way: Way
    done: int
    total: int
    """Frames at this size, over all ways and repeats."""


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
    on_frame: Callable[[BenchmarkProgress], None] | None = None,
) -> BenchmarkResult:
    """Measure FPS, latency, MACs and memory of a model in each mode, beside its base network; mIoU if there are labels.

    Ways that go frame by frame run in turns of a few frames. Offline works on several frames at once, so its wall time
    over whole passes is measured, in turns with passes of the base network. Realtime gets its frames at their times.

    model: what `stmg.load` takes, or a bare network such as ddrnet39, which may be without weights here.
    source: a video, or a dataset, whose split `val` is used.
    sizes: frame sizes to measure at. Default: the size at which `segment` computes the video.
    mode: offline, online or realtime. Default: all of them.
    rate: FPS in realtime. Default: the source's own, or 15 if that is unknown.
    baselines: also run copied labels, warped logits and half resolution, and streams at other budgets.
    smaller: other models to run on every frame.
    beside: exports of the same model for other runtimes, or in INT8, to run in the same modes.

    After Ctrl-C the result has the sizes measured so far, and `interrupted` is True.
    """
    spec = as_spec(model).with_options(untrained=True)
    modes = tuple(filter(spec.settings.can_run, MODES)) if mode is None else (check_mode(mode),)
    if rate is not None and ("realtime" not in modes or rate <= 0):
        raise SettingsError(f"rate is for realtime and must be above 0 FPS; got {rate:g} and the mode {mode}")
    warning = busy_warning()
    runs: list[SizeBenchmark] = []
    interrupted = False
    for size in sizes or (None,):
        subject = open_model(spec, size, source=None if size else read_source_size(source))
        try:
            clip = read_clip(str(source), subject.size, frames)
            clip = clip._replace(rate=rate or clip.rate or RATE)
            at_size = spec.with_options(size=subject.size)
            streams = open_streams(subject, at_size, clip, modes, baselines, smaller, beside)
            runs.append(_measure_size(subject, streams, clip, modes, repeats, on_frame))
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


def _measure_size(
    subject: Subject,
    streams: Sequence[Stream],
    clip: Clip,
    modes: Sequence[Mode],
    repeats: int,
    on_frame: Callable[[BenchmarkProgress], None] | None,
) -> SizeBenchmark:
    """Measure every stream over the clip, at one size."""
    total, done = count_frames(streams, len(clip.frames), repeats), 0

    def progress(way: Way, frames: int) -> None:
        nonlocal done
        done += frames
        if on_frame is not None:
            on_frame(BenchmarkProgress(subject.size, way, done, total))

    num_classes = clip.dataset.num_classes if clip.dataset else 0
    measured = measure_ways(streams, clip, num_classes, repeats, on_progress=progress)
    draw_ms = mean_ms(streams[0].stepper.step(clip.frames[0]).plot)
    outside_ms = (clip.read_ms or 0.0) + draw_ms
    sample = [Frame(frame.image) for frame in clip.frames[:MEMORY_FRAMES]]
    rows: list[Row] = []
    notes: list[str] = []
    for stream in streams:
        row = measured.row(stream, outside_ms)
        if row.live is None:
            times = measured.times(stream.way)
            if stream.way.reference != BASE:
                to_model = times.ratios((measured.passes if stream.way.mode == "offline" else measured.stepped)[BASE])
                row = replace(row, model_gain=median_ratio(to_model), model_gain_range=value_range(to_model))
            if stream.way in (BASE, Way(kind="online")):
                latencies = tuple(round(ms, 3) for ms in times.repeats[0])
                row = replace(row, latencies=latencies, frame_levels=tuple(times.levels))
            memory, note = _probe_memory(stream, sample)
            row = replace(row, peak_memory=memory)
            notes += [note] if note else []
        rows.append(row)
    return SizeBenchmark(
        size=subject.size,
        frames=len(clip.frames),
        frames_per_turn=TURN,
        settings="; ".join(describe_settings(subject.segmenter, mode) for mode in modes),
        runtime=subject.segmenter.runtime.description,
        read_ms=None if clip.read_ms is None else round(clip.read_ms, 3),
        draw_ms=round(draw_ms, 3),
        rows=tuple(row for row in rows if row.live is None),
        passes=tuple(measured.pass_rows()),
        realtime=tuple(row for row in rows if row.live is not None),
        notes=tuple(notes),
    )


def _probe_memory(stream: Stream, sample: Sequence[Frame]) -> tuple[int | None, str]:
    """Peak bytes of a stream alone in a process; None and a note if that crashes, so that no other result is lost."""
    if stream.spec is None:
        return None, ""
    try:
        return peak_memory(partial(resolve, stream.spec), sample, stream.way.mode), ""
    except Exception as error:  # the process was killed, or a user's network raised something
        lines = str(error).strip().splitlines()
        reason = f"{type(error).__name__}{f': {lines[0]}' if lines else ''}"
        return None, f"the memory of {stream.way.name} could not be measured ({reason})"
