"""stmg segment: a source in, an overlay video, records, labels and a timeline out."""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import Progress, TaskID
from rich.table import Table

from stmg.commands.progress import INTERRUPTED, progress_bar
from stmg.commands.segmenters import segmenter_for
from stmg.segmenter import VideoSegmenter
from stmg.sinks import VIDEO_FORMATS, LabelImages, OverlayVideo, Records, Sink, Sinks
from stmg.state import FrameResult
from stmg.timeline import Timeline
from stmg.video import VideoSource, open_video

OUTPUTS = {"overlay": "overlay.mp4", "records": "records.jsonl", "timeline": "timeline.png", "labels": "labels"}


def segment(
    source: str,
    model: str,
    made: dict[str, Any],
    out: Path,
    *,
    save: list[str] | None,
    every: int,
    limit: int | None,
    resize: tuple[int, int] | None,
    fps: float | None,
    console: Console,
) -> int:
    """Segment a source and write what was asked for; the exit code. An interruption keeps everything written so far.

    `made` are settings of `segmenter_for`.
    """
    interrupted = False
    with open_video(source, every=every, limit=limit, resize=resize, fps=fps) as video:
        segmenter = segmenter_for(model, size=resize or video.size or (360, 480), **made)
        for note in (*segmenter.runtime.notes, *_idle_masks(segmenter)):
            console.print(f"[yellow]{escape(note)}[/]")
        sinks = sinks_for(source, out, save, video, segmenter)
        summary = Summary()
        with sinks, progress_bar(console) as progress:
            task = progress.add_task("segmenting", total=video.num_frames, told="")
            try:
                for result in segmenter.stream(video):
                    sinks.write(result)
                    summary.add(result)
                    _advance(progress, task, summary)
            except KeyboardInterrupt:
                interrupted = True
                signal.signal(signal.SIGINT, signal.SIG_IGN)  # closing the outputs takes a moment, and must end
        damaged, dropped = video.damaged, video.dropped
    console.print(summary.table())
    if dropped:
        console.print(f"[yellow]{dropped} frames came faster than they could be segmented and were dropped[/]")
    if damaged:
        console.print(f"[yellow]{escape(damaged)}[/]")
    if interrupted:
        console.print("[yellow]interrupted; the outputs hold every frame up to here[/]")
    console.print(f"written to [bold]{escape(str(out))}[/]")
    return INTERRUPTED if interrupted else 0


def _idle_masks(segmenter: VideoSegmenter) -> tuple[str, ...]:
    trained = segmenter.runtime.has_mask_generator or segmenter.partial_scale < 1
    if trained or not segmenter.scheduler.refreshes:
        return ()
    return (
        f"the model has no trained mask generator, so partial frames of the scheduler {segmenter.scheduler.name} "
        "run every block and save nothing; --scheduler drift carries frames instead",
    )


def sinks_for(source: str, out: Path, save: list[str] | None, video: VideoSource, segmenter: VideoSegmenter) -> Sinks:
    """The outputs asked for; `out` names a video, or a folder for several."""
    fps = video.fps or 30.0
    if out.suffix.lower() in VIDEO_FORMATS and not out.is_dir():
        if save:
            raise ValueError(f"--save goes with a folder; {out} is one video")
        _keep_apart(source, out)
        return Sinks(OverlayVideo(out, fps))
    unknown = [name for name in save or () if name not in OUTPUTS]
    if unknown:
        raise ValueError(f"cannot save {unknown[0]!r}; there are {', '.join(OUTPUTS)}")
    if save is None:  # the timeline is a gift where it can be drawn, not a reason to stop
        save = ["overlay", "records", *(["timeline"] if find_spec("matplotlib") else [])]
    if out.exists() and not out.is_dir():
        raise ValueError(f"{out} is a file; give a folder, or a video name that ends in {', '.join(VIDEO_FORMATS)}")
    paths = {name: out / OUTPUTS[name] for name in save}
    for path in paths.values():
        _keep_apart(source, path)
    out.mkdir(parents=True, exist_ok=True)
    makers: dict[str, Callable[[Path], Sink]] = {
        "overlay": lambda path: OverlayVideo(path, fps),
        "records": Records,
        "timeline": lambda path: Timeline(path, title=video.name),
        "labels": lambda path: LabelImages(path, segmenter.palette),
    }
    return Sinks(*[makers[name](path) for name, path in paths.items()])


def _keep_apart(source: str, output: Path) -> None:
    if source != "-" and output.exists() and Path(source).exists() and output.samefile(source):
        raise ValueError(f"{output} is the source itself; write somewhere else with --out")


class Summary:
    """Counts over a stream of any length: nothing is kept of a frame."""

    def __init__(self) -> None:
        self.frames: Counter[str] = Counter()
        self.milliseconds: Counter[str] = Counter()
        self.motion: Counter[str] = Counter()
        self.macs = 0
        self.counted = 0
        self.started = time.perf_counter()

    def add(self, result: FrameResult) -> None:
        self.frames[result.level] += 1
        self.milliseconds[result.level] += result.latency_ms  # type: ignore[assignment]
        self.motion[result.motion] += 1
        if result.macs is not None:
            self.macs += result.macs
            self.counted += 1

    @property
    def num_frames(self) -> int:
        return self.frames.total()

    @property
    def fps(self) -> float:
        """Frames a second from source to sinks."""
        return self.num_frames / max(time.perf_counter() - self.started, 1e-9)

    def shares(self) -> str:
        total = max(self.num_frames, 1)
        return " ".join(f"{level} {count / total:.0%}" for level, count in sorted(self.frames.items()))

    def table(self) -> Table:
        title = f"{self.num_frames} frames, {self.fps:.1f} FPS from source to outputs"
        table = Table("level", "frames", "share", "mean ms", title=title)
        for level, count in sorted(self.frames.items()):
            mean = self.milliseconds[level] / count
            table.add_row(level, str(count), f"{count / self.num_frames:.0%}", f"{mean:.1f}")
        total = sum(self.milliseconds.values())
        table.add_section()
        table.add_row("all", str(self.num_frames), "", f"{total / max(self.num_frames, 1):.1f}")
        sources = ", ".join(f"{name} {count}" for name, count in self.motion.most_common())
        table.caption = f"motion fields: {sources}"
        if self.counted:
            table.caption += f"; {self.macs / self.counted / 1e9:.2f} GMACs a frame"
        return table


def _advance(progress: Progress, task: TaskID, summary: Summary) -> None:
    told = f"{summary.fps:.1f} FPS  {summary.shares()}"
    progress.update(task, advance=1, told=told)
