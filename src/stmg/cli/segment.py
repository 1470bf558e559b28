"""stmg segment: a video in; an overlay video, records, a timeline and label images out."""

from __future__ import annotations

import signal
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from stmg.cli.options import (
    MODEL_HELP,
    Compile,
    Device,
    Fusion,
    Motion,
    Normalize,
    Precision,
    Runtime,
    Scheduler,
    Threads,
    Weights,
    make_spec,
)
from stmg.cli.progress import INTERRUPTED, progress_bar
from stmg.errors import SettingsError

if TYPE_CHECKING:
    from stmg.outputs.sink import Sink, Sinks
    from stmg.segmenter import VideoSegmenter
    from stmg.streaming.state import FrameResult
    from stmg.video.sources import VideoSource

OUTPUTS = {"overlay": "overlay.mp4", "records": "records.jsonl", "timeline": "timeline.png", "labels": "labels"}


def segment(
    source: Annotated[
        str,
        typer.Argument(
            help="Video file, folder or pattern of images, camera:0, rtsp://..., or - for standard input.",
            show_default=False,
        ),
    ],
    model: Annotated[str, typer.Option("--model", "-m", metavar="NAME", help=MODEL_HELP, show_default=False)],
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="PATH", help="Output folder, or a video file for the overlay alone.")
    ] = Path("out"),
    save: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="What to write: overlay, records, timeline or labels (PNG images). Repeat for several. "
            "Default: all but labels.",
        ),
    ] = None,
    size: Annotated[
        str | None,
        typer.Option("--size", "--resize", metavar="HEIGHTxWIDTH", help="Resize frames first, such as 360x480."),
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, metavar="N", help="Stop after N frames.")] = None,
    every: Annotated[int, typer.Option(min=1, metavar="N", help="Take every Nth frame.")] = 1,
    fps: Annotated[float | None, typer.Option(help="Frame rate of a folder of images.")] = None,
    device: Device = None,
    threads: Threads = None,
    scheduler: Scheduler = None,
    motion: Motion = None,
    fusion: Fusion = None,
    weights: Weights = None,
    runtime: Runtime = None,
    precision: Precision = None,
    normalize: Normalize = None,
    compile: Compile = False,
) -> None:
    """Segment a video.

    Writes an overlay video, a JSON line per frame and a timeline of what was computed. Ctrl-C keeps what is done.
    """
    from stmg.checkpoints.resolve import is_network, resolve
    from stmg.checkpoints.user_code import is_user_function
    from stmg.video.sources import open_video

    console = Console()
    spec = make_spec(
        model,
        weights=weights,
        device=device,
        precision=precision,
        runtime=runtime,
        threads=threads,
        normalization=normalize,
        compile=compile,
        scheduler=scheduler,
        motion=motion,
        fusion=fusion,
        size=size,
    )
    with open_video(source, every=every, limit=limit, resize=spec.size, fps=fps) as video:
        if spec.size is None and (is_user_function(model) or is_network(model)):
            spec = replace(spec, size=video.size)  # such a network may take frames of one size only
        segmenter = resolve(spec)
        for note in (*segmenter.runtime.notes, *_unused_masks(segmenter)):
            console.print(f"[yellow]{escape(note)}[/]")
        sinks = _make_sinks(source, out, save, video, segmenter)
        summary, interrupted = _run(segmenter, video, sinks, console)
        damaged, dropped = video.damaged, video.dropped
    console.print(summary.table())
    console.print(summary.line())
    if dropped:
        console.print(f"[yellow]{dropped} frames came faster than they could be segmented and were dropped[/]")
    if damaged:
        console.print(f"[yellow]{escape(damaged)}[/]")
    if interrupted:
        console.print("[yellow]interrupted; the outputs hold every frame up to here[/]")
    console.print(f"written to [bold]{escape(str(out))}[/]", soft_wrap=True)
    raise typer.Exit(INTERRUPTED if interrupted else 0)


def _run(segmenter: VideoSegmenter, video: VideoSource, sinks: Sinks, console: Console) -> tuple[Summary, bool]:
    """Segment into the sinks; what was done, and whether Ctrl-C ended it."""
    summary = Summary()
    with sinks, progress_bar(console) as progress:
        task = progress.add_task("segmenting", total=video.num_frames, status="")
        try:
            for result in segmenter.stream(video):
                sinks.write(result)
                summary.add(result)
                progress.update(task, advance=1, status=f"{summary.fps:.1f} FPS  {summary.shares()}")
        except KeyboardInterrupt:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # closing the outputs takes a moment, and must end
            return summary, True
    return summary, False


def _unused_masks(segmenter: VideoSegmenter) -> tuple[str, ...]:
    settings = segmenter.settings
    if segmenter.runtime.has_mask_generator or settings.partial_scale < 1 or not settings.scheduler.refreshes:
        return ()
    return (
        f"this model has no trained mask generator, so partial frames of the scheduler {settings.scheduler.name} "
        "run every block and save nothing; --scheduler drift carries frames instead",
    )


def _make_sinks(source: str, out: Path, save: list[str] | None, video: VideoSource, segmenter: VideoSegmenter) -> Sinks:
    """The sinks of the outputs named in `save`; `out` is a video, or a folder for several outputs."""
    from stmg.outputs.label_images import LabelImages
    from stmg.outputs.overlay_video import VIDEO_FORMATS, OverlayVideo
    from stmg.outputs.records import Records
    from stmg.outputs.sink import Sinks
    from stmg.outputs.timeline import Timeline

    fps = video.fps or 30.0
    if out.suffix.lower() in VIDEO_FORMATS and not out.is_dir():
        if save:
            raise SettingsError(f"--save needs a folder as --out; {out} is a video file")
        _refuse_source(source, out)
        return Sinks(OverlayVideo(out, fps))
    unknown = [name for name in save or () if name not in OUTPUTS]
    if unknown:
        raise SettingsError(f"--save is {', '.join(OUTPUTS)}; got {unknown[0]!r}")
    if save is None:  # the timeline is drawn where matplotlib is installed, and is no reason to stop where it is not
        save = ["overlay", "records", *(["timeline"] if find_spec("matplotlib") else [])]
    if out.exists() and not out.is_dir():
        endings = ", ".join(VIDEO_FORMATS)
        raise SettingsError(f"--out {out} is a file; give a folder, or a video file name ending in {endings}")
    paths = {name: out / OUTPUTS[name] for name in save}
    for path in paths.values():
        _refuse_source(source, path)
    out.mkdir(parents=True, exist_ok=True)
    makers: dict[str, Callable[[Path], Sink]] = {
        "overlay": lambda path: OverlayVideo(path, fps),
        "records": Records,
        "timeline": lambda path: Timeline(path, title=video.name),
        "labels": lambda path: LabelImages(path, segmenter.palette),
    }
    return Sinks(*[makers[name](path) for name, path in paths.items()])


def _refuse_source(source: str, output: Path) -> None:
    if source != "-" and output.exists() and Path(source).exists() and output.samefile(source):
        raise SettingsError(f"{output} is the source itself; choose another --out")


@dataclass
class Summary:
    """Counts over a stream of any length, by level; nothing is kept of a frame."""

    frames: Counter[str] = field(default_factory=Counter)
    milliseconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    motion: Counter[str] = field(default_factory=Counter)
    """Frames by where their flow came from."""
    macs: int = 0
    num_counted: int = 0
    """Frames whose MACs could be counted."""
    started: float = field(default_factory=time.perf_counter)

    def add(self, result: FrameResult) -> None:
        self.frames[result.level] += 1
        self.milliseconds[result.level] += result.latency_ms
        self.motion[result.motion] += 1
        if result.macs is not None:
            self.macs += result.macs
            self.num_counted += 1

    @property
    def num_frames(self) -> int:
        return self.frames.total()

    @property
    def fps(self) -> float:
        """Frames per second from source to sinks."""
        return self.num_frames / max(time.perf_counter() - self.started, 1e-9)

    def shares(self) -> str:
        """The share of each level, as one short line."""
        total = max(self.num_frames, 1)
        return " ".join(f"{level} {count / total:.0%}" for level, count in sorted(self.frames.items()))

    def table(self) -> Table:
        table = Table("level")
        for head in ("frames", "share", "mean ms"):
            table.add_column(head, justify="right")
        for level, count in sorted(self.frames.items()):
            mean = self.milliseconds[level] / count
            table.add_row(level, str(count), f"{count / self.num_frames:.0%}", f"{mean:.1f}")
        table.add_section()
        total = sum(self.milliseconds.values())
        table.add_row("all", str(self.num_frames), "", f"{total / max(self.num_frames, 1):.1f}")
        return table

    def line(self) -> str:
        """The whole stream in a line."""
        parts = [f"{self.num_frames} frames, {self.fps:.1f} FPS from source to outputs"]
        if self.num_counted == self.num_frames > 0:
            parts.append(f"{self.macs / self.num_counted / 1e9:.2f} GMACs per frame")
        flows = ", ".join(f"{name} {count}" for name, count in self.motion.most_common())
        return "; ".join([*parts, f"flow: {flows or 'none'}"])
