"""Verbs that judge: evaluate, benchmark, ablate, profile, report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from stmg.cli.options import (
    Compile,
    Data,
    Device,
    Fusion,
    Limit,
    Model,
    Motion,
    Normalise,
    Precision,
    Runtime,
    Scheduler,
    Size,
    Split,
    Threads,
    Weights,
    model_of,
    settings_of,
    size_of,
)

verbs = typer.Typer()


@verbs.command()
def evaluate(
    model: Model,
    data: Data,
    split: Split = "val",
    size: Size = None,
    limit: Limit = None,
    paper: Annotated[bool, typer.Option("--paper", help="Also the paper's protocol, on pairs of frames.")] = False,
    scheduler: Scheduler = None,
    motion: Motion = None,
    fusion: Fusion = None,
    weights: Weights = None,
    device: Device = None,
    normalise: Normalise = None,
    precision: Precision = "fp32",
    runtime: Runtime = None,
    threads: Threads = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for figures and pictures.")] = Path("out/evaluate"),
) -> None:
    """Judge a model as a stream beside its base network: mIoU, boundaries, consistency, what is lost after a key frame.

    On videos without labels it tells how far the labels agree with those of the whole network.
    """
    from stmg.commands.evaluate import evaluate as run
    from stmg.commands.judging import Contest

    chosen = settings_of(scheduler, motion, fusion)
    settings = model_of(weights, device, precision, runtime, threads, chosen, normalise)
    raise typer.Exit(run(settings, Contest(model, data, split, size_of(size), limit), paper, out, Console()))


@verbs.command()
def benchmark(
    model: Model,
    source: Annotated[str, typer.Argument(help="A dataset, street:0-0, a video file, or a folder of images.")],
    size: Annotated[list[str] | None, typer.Option(help="HEIGHTxWIDTH; repeat it for several sizes.")] = None,
    frames: Annotated[int, typer.Option(min=2, help="Frames of the stream.")] = 100,
    repeats: Annotated[int, typer.Option(min=1, help="Passes over it, for the spread.")] = 3,
    rivals: Annotated[bool, typer.Option("--rivals", help="Also what one would try first, over the same frames.")] = (
        False
    ),
    smaller: Annotated[
        list[str] | None,
        typer.Option(help="Another model to run on every frame, such as a smaller network; repeat it."),
    ] = None,
    beside: Annotated[
        list[str] | None, typer.Option(help="An export of the same model for another runtime; repeat it.")
    ] = None,
    scheduler: Scheduler = None,
    motion: Motion = None,
    fusion: Fusion = None,
    weights: Weights = None,
    device: Device = None,
    normalise: Normalise = None,
    precision: Precision = "fp32",
    compile: Compile = False,
    runtime: Runtime = None,
    threads: Threads = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for figures and pictures.")] = Path("out/benchmark"),
) -> None:
    """Time a model beside its base network, in turns over the same frames: FPS, latency, MACs, parameters, memory.

    A bare network such as ddrnet39 may be timed without weights. Where the source has labels, accuracy is told too.
    """
    from stmg.commands.benchmark import Asked
    from stmg.commands.benchmark import benchmark as run

    chosen = settings_of(scheduler, motion, fusion)
    settings = model_of(weights, device, precision, runtime, threads, chosen, normalise, compile)
    asked = Asked(model, settings, source, smaller or [], beside or [], rivals, frames, repeats)
    raise typer.Exit(run(asked, [found for text in size or [] if (found := size_of(text))], out, Console()))


@verbs.command()
def ablate(
    model: Model,
    data: Data,
    also: Annotated[
        list[str] | None,
        typer.Option(help="A checkpoint trained otherwise: 'one weight set=runs/one/last'; repeat it."),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Draws of what is random.")] = 3,
    split: Split = "val",
    size: Size = None,
    limit: Limit = None,
    device: Device = None,
    threads: Threads = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for figures.")] = Path("out/ablate"),
) -> None:
    """Tell what each part is worth: the rows of the paper's ablations, and ours."""
    from stmg.commands.ablate import ablate as run
    from stmg.commands.judging import Contest

    settings = model_of(None, device, "fp32", None, threads, {})
    raise typer.Exit(
        run(settings, Contest(model, data, split, size_of(size), limit), also or [], seeds, out, Console())
    )


@verbs.command()
def profile(
    source: Annotated[str, typer.Argument(help="Video file, folder or pattern of images, camera:0 or rtsp://...")],
    model: Annotated[str, typer.Option("--model", "-m", help="The network it is meant for.")] = "lite0-camvid",
    size: Size = None,
    frames: Annotated[int, typer.Option(min=2, help="Frames to look at.")] = 150,
    changed: Annotated[
        float,
        typer.Option(
            min=0,
            max=100,
            help="Most labels that may differ from the whole network's, in percent; on CamVid 2.5 cost 1 % of mIoU.",
        ),
    ] = 2.5,
    weights: Weights = None,
    device: Device = None,
    normalise: Normalise = None,
    precision: Precision = "fp32",
    runtime: Runtime = None,
    threads: Threads = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for figures and pictures.")] = Path("out/profile"),
) -> None:
    """Before any training: how much of this video repeats, what speed-up to expect here, and whether it is worth it."""
    from stmg.commands.profile import profile as run

    settings = model_of(weights, device, precision, runtime, threads, {}, normalise)
    raise typer.Exit(run(settings, model, source, size_of(size), frames, changed / 100, out, Console()))


@verbs.command()
def report(
    runs: Annotated[list[Path], typer.Argument(help="Folders that evaluate, benchmark, ablate or profile wrote.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The page.")] = Path("out/report.html"),
) -> None:
    """Put results together on one page, with their pictures; the tables alone beside it as Markdown."""
    from stmg.commands.report import report as run

    raise typer.Exit(run(runs, out, Console()))
