"""The command line: verbs only, each calls one function."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from stmg import __version__
from stmg.options import (
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
    normalisation_of,
    settings_of,
    size_of,
)

app = typer.Typer(
    name="stmg",
    help="Faster video segmentation: compute again only what has changed.",
    no_args_is_help=True,
    invoke_without_command=True,
    pretty_exceptions_enable=False,
)

data = typer.Typer(help="Look at data.", no_args_is_help=True)
app.add_typer(data, name="data")


@app.callback()
def options(
    version: Annotated[bool, typer.Option("--version", help="Print the version and leave.")] = False,
) -> None:
    if version:
        print(f"stmg {__version__}")
        raise typer.Exit


@app.command()
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


@app.command()
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


@app.command()
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


@app.command()
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


@app.command()
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


@app.command()
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


@app.command()
def report(
    runs: Annotated[list[Path], typer.Argument(help="Folders that evaluate, benchmark, ablate or profile wrote.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The page.")] = Path("out/report.html"),
) -> None:
    """Put results together on one page, with their pictures; the tables alone beside it as Markdown."""
    from stmg.commands.report import report as run

    raise typer.Exit(run(runs, out, Console()))


@app.command()
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


@app.command()
def train(
    recipe: Annotated[Path, typer.Argument(help="A recipe, such as recipes/ddrnet23-slim-camvid.yaml.")],
    settings: Annotated[
        list[str] | None, typer.Argument(help="Settings laid over it: data.path=CamVid optimiser.learning_rate=0.01")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder of the run; runs/RECIPE if not given.")
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "auto",
    devices: Annotated[int, typer.Option(min=1, help="Processes or GPUs on this machine.")] = 1,
    nodes: Annotated[int, typer.Option(min=1, help="Machines; start the same command on each with torchrun.")] = 1,
    precision: Annotated[str, typer.Option(help="32-true, bf16-mixed or 16-mixed.")] = "32-true",
    threads: Threads = None,
) -> None:
    """Train a network as a recipe says. The same command goes on with a run that was stopped, however it was."""
    from stmg.commands.segmenters import use_threads
    from stmg.commands.train import train_recipe
    from stmg.training.processes import Machines

    use_threads(threads)
    where = Machines(device, devices, nodes, precision, threads)
    raise typer.Exit(train_recipe(recipe, settings or [], out, where, Console()))


@data.command()
def check(
    path: Annotated[
        str,
        typer.Argument(help="CamVid, Cityscapes, a folder with a dataset.yaml, videos without labels, or street:0-9."),
    ],
    sheet: Annotated[Path, typer.Option(help="Where to put the contact sheet.")] = Path("out/contact_sheet.png"),
) -> None:
    """Say what a dataset holds and whether all of it can be read: splits, frames, frame rate, class shares, pictures.

    A folder of your own needs a dataset.yaml:

      classes: [road, car, {name: person, colour: [220, 20, 60]}]

      train: [{frames: train/images, labels: train/labels}, {frames: drive.mp4, labels: drive_labels}]

      val: [{frames: val/images, labels: val/labels, rate: 15}]
    """
    from stmg.commands.data import check as run

    raise typer.Exit(run(path, sheet, Console()))


@app.command()
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


def main() -> None:
    """Run the command line; a user's mistake is one line and exit code 2, trouble with the machine exit code 1."""
    try:
        app()
    except (ValueError, TypeError, ImportError, FileNotFoundError) as error:
        _fail(error, 2)
    except (OSError, ArithmeticError, MemoryError, RuntimeError) as error:
        _fail(error, 1)


def _fail(error: Exception, code: int) -> None:
    if os.environ.get("STMG_DEBUG"):
        raise error
    text = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, ModuleNotFoundError) and error.name == "torch":
        text = 'this needs PyTorch: pip install "stmg[torch]"'
    Console(stderr=True).print(f"[bold red]error:[/] {escape(text)}", soft_wrap=True, highlight=False)
    sys.exit(code)
