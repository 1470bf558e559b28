"""Verbs that run a network: segment, inspect, export, demo."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from stmg.cli.options import (
    Compile,
    Device,
    Fusion,
    Motion,
    Normalise,
    Precision,
    Runtime,
    Scheduler,
    Threads,
    Weights,
    model_of,
    normalisation_of,
    settings_of,
    size_of,
)

verbs = typer.Typer()


@verbs.command()
def segment(
    source: Annotated[
        str, typer.Argument(help="Video file, folder or pattern of images, camera:0, rtsp://..., or - for stdin.")
    ],
    model: Annotated[
        str, typer.Option("--model", "-m", help="Shipped name, checkpoint folder, Hub id, or file.py:function.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the outputs, or a video file.")] = Path("out"),
    weights: Weights = None,
    save: Annotated[
        list[str] | None,
        typer.Option(help="overlay, records, timeline, labels; repeat it. All but labels if not given."),
    ] = None,
    scheduler: Scheduler = None,
    motion: Motion = None,
    fusion: Fusion = None,
    device: Device = None,
    normalise: Normalise = None,
    precision: Precision = "fp32",
    compile: Compile = False,
    runtime: Runtime = None,
    threads: Threads = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Stop after this many frames.")] = None,
    every: Annotated[int, typer.Option(min=1, help="Take each Nth frame.")] = 1,
    resize: Annotated[str | None, typer.Option(help="HEIGHTxWIDTH to work at, such as 360x480.")] = None,
    fps: Annotated[float | None, typer.Option(help="Frames a second of a folder of images.")] = None,
) -> None:
    """Segment a video: an overlay video, a record of each frame and a timeline of what was computed."""
    from stmg.commands.segment import segment as run

    code = run(
        source,
        model,
        model_of(
            weights, device, precision, runtime, threads, settings_of(scheduler, motion, fusion), normalise, compile
        ),
        out,
        save=save,
        every=every,
        limit=limit,
        resize=size_of(resize),
        fps=fps,
        console=Console(),
    )
    raise typer.Exit(code)


@verbs.command()
def inspect(
    model: Annotated[
        str,
        typer.Argument(help="Shipped name, checkpoint folder, Hub id, network such as ddrnet39, file.py:function."),
    ],
    size: Annotated[str | None, typer.Option(help="HEIGHTxWIDTH to count at, such as 1024x2048.")] = None,
    classes: Annotated[int | None, typer.Option(help="Classes of a bare network.")] = None,
    device: Device = None,
    threads: Threads = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show which residual blocks of a network can be skipped, and what each costs."""
    from stmg.commands.inspect import inspect as run
    from stmg.commands.segmenters import use_threads

    use_threads(threads)
    raise typer.Exit(run(model, size_of(size), classes, device, as_json, Console()))


@verbs.command()
def export(
    model: Annotated[
        str, typer.Argument(help="Shipped name, checkpoint folder, Hub id, network such as ddrnet39, file.py:function.")
    ],
    to: Annotated[str, typer.Option(help="onnx or openvino.")] = "onnx",
    size: Annotated[str | None, typer.Option(help="HEIGHTxWIDTH of the frames; the model's own if not given.")] = None,
    weights: Weights = None,
    normalise: Normalise = None,
    check: Annotated[str | None, typer.Option(help="A video whose frames to compare on; noise if not given.")] = None,
    int8: Annotated[str | None, typer.Option(help="A video to calibrate eight bits on; 32 bits if not given.")] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the graphs.")] = Path("out/export"),
) -> None:
    """Write a model as graphs for ONNX Runtime or OpenVINO, and compare them with PyTorch."""
    from stmg.commands.export import export_model

    normalised = normalisation_of(normalise)
    raise typer.Exit(export_model(model, to, size_of(size), weights, normalised, check, int8, out, Console()))


@verbs.command()
def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the outputs.")] = Path("out/demo"),
    frames: Annotated[int, typer.Option(help="How long a street to segment, at 15 frames a second.")] = 150,
    threads: Threads = None,
) -> None:
    """Render a street that the shipped network has never seen and segment it, with and without stmg."""
    from stmg.commands.demo import demo as run
    from stmg.commands.segmenters import use_threads

    use_threads(threads)
    raise typer.Exit(run(out, frames, Console()))
