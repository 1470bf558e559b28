"""stmg segment: turn a video into an overlay video, records, a timeline and label images."""

from __future__ import annotations

import json
import warnings
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape

from stmg.cli.interruption import INTERRUPTED
from stmg.cli.options import (
    MODEL,
    MODEL_HELP,
    STREAM,
    Areas,
    BackgroundColor,
    Every,
    Options,
    make_spec,
    settings,
)
from stmg.cli.progress import progress_bar
from stmg.errors import SettingsError, StmgWarning

if TYPE_CHECKING:
    from stmg.outputs.sinks import Sink
    from stmg.segmenter import VideoSegmenter
    from stmg.streaming.statistics import Statistics
    from stmg.video.sources import FrameSource, VideoSource

LOST = 1  # exit code if a live source broke off, which is no mistake of the user


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
            help="What to write: overlay, records, timeline or labels (PNG images); of a network of one channel also "
            "alpha (gray video), alpha-images (PNG) or cutout (PNG). Repeat for several. "
            "Default: overlay, records, timeline.",
        ),
    ] = None,
    areas: Areas = False,
    background: BackgroundColor = None,
    limit: Annotated[int | None, typer.Option(min=1, metavar="N", help="Stop after N frames.")] = None,
    every: Every = 1,
    fps: Annotated[
        float | None,
        typer.Option(metavar="FPS", help="Frame rate of a folder of images. Default: videos are written at 30 FPS."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the summary as a line of JSON, and everything else to stderr.")
    ] = False,
    pace: Annotated[
        bool,
        typer.Option(
            "--pace",
            help="Play a file at its own rate, as a camera would; frames that come too fast are dropped. For realtime.",
            rich_help_panel=STREAM,
        ),
    ] = False,
    *,
    options: Annotated[Options, settings(STREAM, "settings", MODEL)],
) -> None:
    """Segment a video.

    Writes an overlay video, a JSON line per frame and a timeline of what was computed. Ctrl-C keeps what is done.
    """
    from stmg.models.loaded import LoadedModel
    from stmg.outputs.sinks import BackgroundSink
    from stmg.outputs.summary import list_troubles, make_summary_lines, make_summary_table, make_summary_values
    from stmg.segmenter import mode_of_source
    from stmg.streaming.settings import check_mode
    from stmg.video.pace import pace as pace_source
    from stmg.video.sources import open_video

    console = Console(stderr=as_json)
    with open_video(source, every=every, limit=limit, fps=fps) as video:
        if fps is not None and video.fps != fps / every:
            raise SettingsError(f"--fps is for images, which have no times of their own; {video.name} has them")
        spec = make_spec(model, options, otherwise=mode_of_source(video))
        mode = check_mode(spec.settings.mode)
        _check_timing(mode, video, pace, spec.settings.delay)
        segmenter = LoadedModel(model, spec).segmenter_for(spec, video.size)
        segmenter.settings.check_arguments(options, mode)
        uses_blocks = mode == "online" and segmenter.settings.scheduler_for("online").refreshes
        notes = (*segmenter.runtime.notes, *(segmenter.runtime.block_notes if uses_blocks else ()))
        for note in (*notes, *_unused_masks(segmenter, mode), *_unpaced(mode, video, pace)):
            console.print(f"[yellow]{escape(note)}[/]")
        sinks = BackgroundSink(_make_sinks(source, out, save, video, segmenter, areas, background))
        frames = pace_source(video) if pace else video
        statistics = _run(segmenter, frames, mode, video.num_frames, sinks, console)
    console.print(make_summary_table(statistics))
    for line in make_summary_lines(statistics, segmenter.settings.max_change):
        console.print(line, soft_wrap=True)
    runtime = segmenter.runtime.description
    console.print(f"computed by {escape(runtime)}", soft_wrap=True)
    for line in list_troubles(statistics):
        console.print(f"[yellow]{escape(line)}[/]", soft_wrap=True)
    console.print(f"written to [bold]{escape(str(out))}[/]", soft_wrap=True)
    if as_json:
        about = {"source": video.name, "model": model, "out": str(out), "runtime": runtime}
        print(json.dumps({**about, **make_summary_values(statistics)}))
    raise typer.Exit(INTERRUPTED if statistics.interrupted else LOST if statistics.lost else 0)


def _check_timing(mode: str, video: VideoSource, pace: bool, delay: int | None) -> None:
    """Raise for options that do not fit the mode or the source."""
    if mode == "offline" and video.live and delay is None:
        raise SettingsError("--mode offline looks at frames to come, so a live source needs --delay FRAMES as well")
    if pace and video.live:
        raise SettingsError(f"--pace plays a file at its own rate; {video.name} is live")
    if pace and mode != "realtime":
        raise SettingsError(f"--pace is for --mode realtime; the mode is {mode}")


def _unpaced(mode: str, video: VideoSource, pace: bool) -> tuple[str, ...]:
    if mode != "realtime" or video.live or pace:
        return ()
    return (
        "frames of a file come faster than those of a camera, so labels are older: --pace plays it at its own rate",
    )


def _run(
    segmenter: VideoSegmenter, source: FrameSource, mode: str, num_frames: int | None, sinks: Sink, console: Console
) -> Statistics:
    """Segment into the sinks, with a progress bar."""
    from stmg.pipeline import run_pipeline
    from stmg.streaming.statistics import Statistics

    warned: list[str] = []
    with sinks, progress_bar(console) as bar, warnings.catch_warnings():
        warnings.simplefilter("ignore", StmgWarning)  # printed below
        task = bar.add_task("segmenting", total=num_frames, status="")

        def show(statistics: Statistics) -> None:
            if statistics.num_frames == 1:  # before it, functions and some graph files do not tell what they give
                console.print(escape(segmenter.describe()), soft_wrap=True, highlight=False)
            for line in segmenter.warnings[len(warned) :]:
                console.print(f"[yellow]{escape(line)}[/]", soft_wrap=True)
                warned.append(line)
            bar.update(task, advance=1, status=f"{statistics.fps:.1f} FPS  {statistics.shares()}")

        return run_pipeline(segmenter, source, sinks, Statistics(mode), on_result=show, end_early=True)


def _unused_masks(segmenter: VideoSegmenter, mode: str) -> tuple[str, ...]:
    settings = segmenter.settings
    if mode != "online" or segmenter.runtime.has_mask_generator or settings.partial_scale < 1:
        return ()
    scheduler = settings.scheduler_for("online")
    if not scheduler.refreshes:
        return ()
    return (
        f"this model has no trained mask generator, so partial frames of the scheduler {scheduler.name} "
        "run every block and save nothing; --scheduler drift carries frames instead",
    )


def _make_sinks(
    source: str,
    out: Path,
    save: list[str] | None,
    video: VideoSource,
    segmenter: VideoSegmenter,
    areas: bool,
    background: str | None,
) -> Sink:
    """The sinks of the outputs named in `save`. `out` is a video, or a folder for several outputs."""
    from stmg.outputs.choose import OUTPUTS, choose_outputs, make_sinks
    from stmg.outputs.sinks import Sinks
    from stmg.outputs.videos import VIDEO_FORMATS, OverlayVideo

    fps = video.fps or 30.0
    if out.suffix.lower() in VIDEO_FORMATS and not out.is_dir():
        if save:
            raise SettingsError(f"--save needs a folder as --out; {out} is a video file")
        if areas or background:
            option = "--areas" if areas else "--background"
            raise SettingsError(f"{option} needs a folder as --out; {out} is a video file")
        _refuse_source(source, out)
        return Sinks(OverlayVideo(out, fps))
    names = choose_outputs(save, areas=areas, background=background)
    if out.exists() and not out.is_dir():
        endings = ", ".join(VIDEO_FORMATS)
        raise SettingsError(f"--out {out} is a file; give a folder, or a video file name ending in {endings}")
    _refuse_source(source, out)
    for name in names:
        _refuse_source(source, out / OUTPUTS[name])
    return make_sinks(
        names,
        out,
        fps=fps,
        title=video.name,
        palette=segmenter.palette,
        class_names=segmenter.class_names,
        areas=areas,
        background=background,
    )


def _refuse_source(source: str, output: Path) -> None:
    if source == "-" or not output.exists():
        return
    paths = [Path(source)] if Path(source).exists() else [Path(path).parent for path in glob(source)[:1]]
    if any(output.samefile(path) for path in paths):
        raise SettingsError(f"{output} is the source itself; choose another --out")
