"""stmg train: a recipe in, checkpoints out."""

from __future__ import annotations

import time
from pathlib import Path

import cv2
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress

from stmg.commands.progress import progress_bar
from stmg.config import Recipe, read_recipe
from stmg.training.run import Machines, Told, train
from stmg.training.stages import STAGES

INTERRUPTED = 130
LINE_EVERY = 60.0  # seconds between lines where there is no terminal to draw a bar on


def train_recipe(path: Path, overrides: list[str], out: Path | None, machines: Machines, console: Console) -> int:
    """Train, or go on with, the run that a recipe describes; the exit code."""
    recipe = read_recipe(path, overrides)
    folder = out or Path("runs") / path.stem
    cv2.setNumThreads(1)  # the network has the cores
    console.print(f"{escape(path.stem)}: {recipe.steps} steps of {recipe.batch} clips into {escape(str(folder))}")
    with progress_bar(console) as progress:
        teller = Teller(recipe, console, progress)
        try:
            train(recipe, folder, STAGES[recipe.stage], machines, teller)
        except KeyboardInterrupt:
            progress.stop()
            console.print(f"stopped; the same command goes on from the last saved step in {escape(str(folder))}")
            return INTERRUPTED
    console.print(f"done: {escape(str(folder / 'last'))} and {escape(str(folder / 'best'))}", highlight=False)
    if teller.figures:
        console.print(_line(teller.figures))
    return 0


class Teller:
    """Tells how a run is doing: a bar on a terminal, a line a minute elsewhere."""

    def __init__(self, recipe: Recipe, console: Console, progress: Progress) -> None:
        self.console, self.progress = console, progress
        self.task = progress.add_task("training", total=recipe.steps, told="")
        self.figures: dict[str, float] | None = None
        self.started, self.first, self.told = time.monotonic(), 0, 0.0

    def __call__(self, told: Told) -> None:
        if told.figures is not None and told.figures != self.figures:
            self.figures = told.figures
            self.console.print(f"step {told.step}: {_line(told.figures)}")
        line = " ".join(f"{name} {value:.3f}" for name, value in told.losses.items())
        self.progress.update(self.task, completed=told.step, told=line)
        now = time.monotonic()
        self.first = self.first or told.step
        if not self.console.is_terminal and now - self.told > LINE_EVERY:
            self.told = now
            pace = (now - self.started) / max(1, told.step - self.first)
            left = pace * (told.steps - told.step) / 60
            self.console.print(f"step {told.step}/{told.steps} {line} ({pace:.2f} s a step, {left:.0f} min left)")


def _line(figures: dict[str, float]) -> str:
    return ", ".join(
        f"{name} {value:.2f}" for name, value in figures.items() if not name.startswith("iou ") and name != "score"
    )
