"""The command line: verbs only, each calls one function."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from stmg import __version__

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


Device = Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1, mps; a GPU if there is one and none is given.")]
Threads = Annotated[int | None, typer.Option(help="CPU threads to use.")]


@app.command()
def segment(
    source: Annotated[
        str, typer.Argument(help="Video file, folder or pattern of images, camera:0, rtsp://..., or - for stdin.")
    ],
    model: Annotated[
        str, typer.Option("--model", "-m", help="Shipped name, checkpoint folder, Hub id, or file.py:function.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the outputs, or a video file.")] = Path("out"),
    weights: Annotated[
        Path | None, typer.Option(help=".pth or .safetensors for a bare network such as ddrnet23-slim.")
    ] = None,
    save: Annotated[
        list[str] | None,
        typer.Option(help="overlay, records, timeline, labels; repeat it. All but labels if not given."),
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(help="drift, paper, fixed, per-frame, always-key; with settings: fixed:period=3,between=carry."),
    ] = None,
    motion: Annotated[str | None, typer.Option(help="dis, codec or none.")] = None,
    fusion: Annotated[
        float | None, typer.Option(help="What the scores before, moved, count for in key frames: 0 (nothing) to 0.9.")
    ] = None,
    device: Device = None,
    precision: Annotated[str, typer.Option(help="fp32, bf16 or fp16.")] = "fp32",
    threads: Threads = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Stop after this many frames.")] = None,
    every: Annotated[int, typer.Option(min=1, help="Take each Nth frame.")] = 1,
    resize: Annotated[str | None, typer.Option(help="HEIGHTxWIDTH to work at, such as 360x480.")] = None,
    fps: Annotated[float | None, typer.Option(help="Frames a second of a folder of images.")] = None,
) -> None:
    """Segment a video: an overlay video, a record of each frame and a timeline of what was computed."""
    from stmg.commands.segment import segment as run

    asked = {"scheduler": _scheduler(scheduler), "motion": motion, "fusion": fusion}
    settings = {name: value for name, value in asked.items() if value is not None}
    code = run(
        source,
        model,
        out,
        save=save,
        weights=weights,
        device=device,
        precision=precision,
        threads=threads,
        settings=settings,
        every=every,
        limit=limit,
        resize=_size(resize),
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
    from stmg.commands.segment import use_threads

    use_threads(threads)
    raise typer.Exit(run(model, _size(size), classes, device, as_json, Console()))


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
    from stmg.commands.segment import use_threads
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
    from stmg.commands.segment import use_threads

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


def _size(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    parts = text.lower().split("x")
    if len(parts) != 2 or not all(part.isdigit() and int(part) > 0 for part in parts):
        raise ValueError(f"a size is HEIGHTxWIDTH, such as 360x480; got {text!r}")
    return int(parts[0]), int(parts[1])


def _number(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _scheduler(text: str | None) -> Any:
    if text is None:
        return None
    from stmg.scheduler import scheduler_named

    name, _, rest = text.partition(":")
    options: dict[str, Any] = {}
    for item in filter(None, rest.split(",")):
        key, _, value = item.partition("=")
        options[key] = _number(value)
    return scheduler_named(name, **options)
