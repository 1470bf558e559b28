"""Verbs that train, and look at what to train on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from stmg.cli.options import Threads

verbs = typer.Typer()
data = typer.Typer(help="Look at data.", no_args_is_help=True)
verbs.add_typer(data, name="data")


@verbs.command()
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
