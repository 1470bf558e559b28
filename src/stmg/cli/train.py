"""stmg train: turn a recipe into checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape

from stmg.cli.interruption import INTERRUPTED
from stmg.cli.options import Threads
from stmg.cli.progress import progress_bar

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from stmg.training.trainer import StepReport


def train(
    recipe: Annotated[
        Path,
        typer.Argument(help="Recipe, a YAML file such as recipes/ddrnet23-slim-camvid.yaml.", show_default=False),
    ],
    overrides: Annotated[
        list[str] | None,
        typer.Argument(metavar="KEY=VALUE", help="Settings that override the recipe's.", show_default=False),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="DIR", help="Folder of the run. Default: runs/RECIPE.")
    ] = None,
    device: Annotated[str, typer.Option(metavar="NAME", help="auto, cpu, cuda or mps.")] = "auto",
    devices: Annotated[int, typer.Option(min=1, metavar="N", help="Processes or GPUs on this machine.")] = 1,
    nodes: Annotated[
        int, typer.Option(min=1, metavar="N", help="Machines; start the same command on each with torchrun.")
    ] = 1,
    precision: Annotated[str, typer.Option(metavar="NAME", help="fp32, bf16 or fp16.")] = "fp32",
    threads: Threads = None,
) -> None:
    """Train a network from a recipe.

    Writes the best and the last checkpoint, TensorBoard logs and pictures.

    Ctrl-C saves. The same command resumes a run that was stopped, even by kill -9, and ends with the same weights.
    """
    from stmg.training.processes import Machines
    from stmg.training.recipe import read_recipe
    from stmg.training.run_folder import STATE
    from stmg.training.trainer import train as train_recipe

    console = Console()
    settings = read_recipe(recipe, overrides or [])
    folder = out or Path("runs") / recipe.stem
    console.print(f"{escape(recipe.stem)}: {settings.steps} steps of {settings.batch} clips into {escape(str(folder))}")
    reporter = StepReporter()
    try:
        machines = Machines(device, devices, nodes, precision, threads)
        train_recipe(settings, out=folder, machines=machines, on_step=reporter)
    except KeyboardInterrupt:
        reporter.close()
        after = f" after step {reporter.step}" if reporter.step else ""  # unknown if separate processes train
        resumes = (folder / STATE).is_file()
        saved = " and saved; the same command resumes from there" if resumes else "; nothing was saved yet"
        console.print(f"stopped{after}{saved}")
        raise typer.Exit(INTERRUPTED) from None
    finally:
        reporter.close()
    console.print(f"done: {escape(str(folder / 'last'))} and {escape(str(folder / 'best'))}", highlight=False)


class StepReporter:
    """Shows the progress of a run: a bar on a terminal, occasional lines elsewhere.

    The bar is created with the first report, because before that the reporter may be pickled for another process.
    """

    def __init__(self) -> None:
        self.step = 0
        self._progress: Progress | None = None
        self._task: TaskID | None = None
        self._figures: dict[str, float] | None = None

    def __call__(self, report: StepReport) -> None:
        progress, task = self._bar(report)
        console = progress.console
        self.step = report.step
        if report.figures is not None and report.figures != self._figures:
            self._figures = report.figures
            console.print(f"step {report.step}: {_format_figures(report.figures)}", highlight=False)
        losses = " ".join(f"{name} {value:.3f}" for name, value in report.losses.items())
        progress.update(task, completed=report.step, status=losses)

    def close(self) -> None:
        if self._progress is not None:
            self._progress.stop()

    def _bar(self, report: StepReport) -> tuple[Progress, TaskID]:
        if self._progress is None or self._task is None:
            self._progress = progress_bar(Console())
            self._progress.start()
            # Measure the speed after the first step, which is slower than the others.
            self._task = self._progress.add_task("step", total=report.steps, completed=report.step, status="")
        return self._progress, self._task


def _format_figures(figures: dict[str, float]) -> str:
    shown = {name: value for name, value in figures.items() if not name.startswith("iou ") and name != "score"}
    return ", ".join(f"{name} {value:.2f}" for name, value in shown.items())
