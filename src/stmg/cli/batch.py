"""stmg batch: segment many videos, here or on Ray, with a folder of outputs for each and a manifest."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from stmg.cli.interruption import INTERRUPTED
from stmg.cli.options import (
    MODEL,
    MODEL_HELP,
    STREAM,
    Areas,
    BackgroundColor,
    Every,
    Limit,
    Options,
    make_spec,
    settings,
)
from stmg.signals import ignore_ending

if TYPE_CHECKING:
    from stmg.jobs.batch import BatchRun
    from stmg.jobs.manifest import ManifestEntry

FAILED = 1  # exit code when videos failed
COLORS = {"done": "green", "failed": "red", "skipped": "dim"}


def batch(
    videos: Annotated[
        list[str],
        typer.Argument(
            help="Videos; folders of videos; patterns such as 'drives/*.mp4'; or a list, ending in .txt, with one of "
            "these a line. Paths, or URLs such as s3://bucket/drives.",
            show_default=False,
        ),
    ],
    model: Annotated[str, typer.Option("--model", "-m", metavar="NAME", help=MODEL_HELP, show_default=False)],
    out: Annotated[
        str, typer.Option("--out", "-o", metavar="DIR", help="Output folder: a path, or a URL such as s3://bucket/out.")
    ] = "out",
    save: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="What to write of each video, as for stmg segment. Default: overlay, records, timeline.",
        ),
    ] = None,
    areas: Areas = False,
    background: BackgroundColor = None,
    limit: Limit = None,
    every: Every = 1,
    fps: Annotated[float | None, typer.Option(metavar="FPS", help="Frame rate of folders of images.")] = None,
    chunk: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="FRAMES",
            help="Cut videos longer than this into parts, which several workers share and which stay done when the "
            "rest is stopped; labels stay the same. 0: never. Default: 16384.",
        ),
    ] = None,
    ray: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Work on this Ray cluster; auto: on the one this machine belongs to, or else on all cores of this "
            "machine. Each worker takes --threads cores, 1 by default.",
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Maximum number of workers on Ray. Default: as many as there is room for."
        ),
    ] = None,
    *,
    options: Annotated[
        Options,
        settings(
            STREAM,
            "settings",
            MODEL,
            mode="offline or online. Default: offline; online with a scheduler that computes partial frames.",
        ),
    ],
) -> None:
    """Segment many videos, each into a folder of its own.

    Run again, it does what is missing: videos that are done are skipped. One that cannot be segmented does not stop
    the others; manifest.jsonl says what became of each. Ctrl-C keeps what is done.
    """
    from stmg.errors import SettingsError
    from stmg.jobs.batch import BatchRun
    from stmg.jobs.task import CHUNK, BatchSettings
    from stmg.jobs.videos import find_videos
    from stmg.streaming.settings import check_mode

    if workers is not None and ray is None:
        raise SettingsError("--workers is for --ray; without it one process uses all cores")
    spec = make_spec(model, options, otherwise="offline")
    batch_settings = BatchSettings(
        spec=spec,
        mode=check_mode(spec.settings.mode),
        save=None if save is None else tuple(save),
        areas=areas,
        background=background,
        every=every,
        limit=limit,
        fps=fps,
        chunk=CHUNK if chunk is None else chunk,
    )
    if chunk and not batch_settings.may_cut:
        raise SettingsError("--chunk is for --mode offline without --max-change: parts must not depend on each other")
    console = Console()
    run = BatchRun(find_videos(videos, without=out), batch_settings, out, ray=ray, workers=workers)
    started = time.perf_counter()
    interrupted = _run(run, console)
    _print_summary(run, time.perf_counter() - started, out, interrupted, console)
    failed = run.manifest.count("failed")
    raise typer.Exit(INTERRUPTED if interrupted else FAILED if failed else 0)


def _run(run: BatchRun, console: Console) -> bool:
    """Run to the end, with a progress bar over all videos. Return True if Ctrl-C ended it."""
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[status]}"),
        TimeRemainingColumn(),
        console=console,
    )
    number, started = len(run.videos), time.perf_counter()

    def finished(entry: ManifestEntry) -> None:
        if entry.status == "failed" or (entry.status == "done" and not console.is_terminal):
            what = entry.reason or f"{entry.frames} frames in {entry.seconds:.1f} s"
            line = f"[{COLORS[entry.status]}]{entry.status}[/] {escape(entry.folder)}: {escape(what)}"
            bar.console.print(line, soft_wrap=True, highlight=False)
        if entry.status == "done" and entry.note:
            note = f"[yellow]{escape(entry.folder)}: {escape(entry.note)}[/]"
            bar.console.print(note, soft_wrap=True, highlight=False)

    with bar:
        task = bar.add_task("segmenting", total=None, status=f"0/{number} videos")
        run.finished = finished
        run.report = lambda state: bar.update(
            task,
            completed=state.size,
            total=max(1, state.total),
            status=f"{state.videos}/{number} videos"
            + (f"  {state.frames / (time.perf_counter() - started):.1f} FPS" if state.frames else ""),
        )
        try:
            run.run()
        except KeyboardInterrupt:
            ignore_ending()
            return True
    return False


def _print_summary(run: BatchRun, seconds: float, out: str, interrupted: bool, console: Console) -> None:
    manifest = run.manifest
    for note in run.notes:
        console.print(f"[yellow]{escape(note)}[/]")
    counts = ", ".join(f"{manifest.count(status)} {status}" for status in COLORS)
    done = [entry for entry in manifest.entries.values() if entry.status == "done"]
    frames, computed = sum(entry.frames for entry in done), sum(entry.network_runs for entry in done)
    console.print(f"{len(run.videos)} videos: {counts}", highlight=False)
    if frames:
        console.print(
            f"{frames} frames in {seconds:.1f} s, {frames / seconds:.1f} FPS; the network ran {computed} times",
            highlight=False,
            soft_wrap=True,
        )
    if interrupted:
        console.print("[yellow]interrupted; the same command goes on with what is missing[/]")
    console.print(f"written to [bold]{escape(out)}[/], see manifest.jsonl", soft_wrap=True)
