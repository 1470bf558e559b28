"""stmg train: a recipe in, checkpoints out."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from stmg.commands.progress import progress_bar
from stmg.config import read_recipe
from stmg.training.processes import Machines
from stmg.training.run import Told, train
from stmg.training.stages import STAGES

INTERRUPTED = 130
LINE_EVERY = 60.0  # seconds between lines where there is no terminal to draw a bar on


def train_recipe(path: Path, overrides: list[str], out: Path | None, machines: Machines, console: Console) -> int:
    """Train, or go on with, the run that a recipe describes; the exit code."""
    recipe = read_recipe(path, overrides)
    folder = out or Path("runs") / path.stem
    console.print(f"{escape(path.stem)}: {recipe.steps} steps of {recipe.batch} clips into {escape(str(folder))}")
    teller = Teller()
    try:
        train(recipe, folder, STAGES[recipe.stage], machines, teller)
    except KeyboardInterrupt:
        teller.close()
        where = f" after step {teller.step}" if teller.step else ""  # processes of their own keep it to themselves
        console.print(f"stopped{where}, saved; the same command goes on from there")
        return INTERRUPTED
    finally:
        teller.close()
    console.print(f"done: {escape(str(folder / 'last'))} and {escape(str(folder / 'best'))}", highlight=False)
    return 0


class Teller:
    """Tells how a run is doing: a bar on a terminal, a line a minute elsewhere.

    What it draws with is made when it is first called: it may be handed to another process before.
    """

    def __init__(self) -> None:
        self.progress: Any = None
        self.figures: dict[str, float] | None = None
        self.started = self.told = 0.0
        self.first = self.step = 0

    def __call__(self, told: Told) -> None:
        if self.progress is None:
            self.progress = progress_bar(Console())
            self.progress.start()
            self.task = self.progress.add_task("training", total=told.steps, completed=told.step, told="")
            self.started, self.first = time.monotonic(), told.step
        self.step = told.step
        console = self.progress.console
        if told.figures is not None and told.figures != self.figures:
            self.figures = told.figures
            console.print(f"step {told.step}: {_line(told.figures)}", highlight=False)
        line = " ".join(f"{name} {value:.3f}" for name, value in told.losses.items())
        self.progress.update(self.task, completed=told.step, told=line)
        now = time.monotonic()
        if not console.is_terminal and now - self.told > LINE_EVERY and told.step > self.first:
            self.told = now
            pace = (now - self.started) / (told.step - self.first)
            left = pace * (told.steps - told.step) / 60
            console.print(f"step {told.step}/{told.steps} {line} ({pace:.2f} s a step, {left:.0f} min left)")

    def close(self) -> None:
        if self.progress is not None:
            self.progress.stop()


def _line(figures: dict[str, float]) -> str:
    shown = {name: value for name, value in figures.items() if not name.startswith("iou ") and name != "score"}
    return ", ".join(f"{name} {value:.2f}" for name, value in shown.items())
