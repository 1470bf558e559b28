"""Trainings small enough for tests: a small network on one rendered street."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from stmg.data.augment import Augment
from stmg.data.clips import Data
from stmg.training.processes import Machines
from stmg.training.recipe import Recipe
from stmg.training.trainer import StepReport, train
from waiting import Held

SIZE = (48, 64)
CPU = Machines(device="cpu")


def street(**settings: Any) -> Data:
    return Data(**{"path": "street:0-0", "size": SIZE, "storage_scale": 1.0, "val": "", **settings})


def tiny_recipe(**settings: Any) -> Recipe:
    defaults = {
        "network": "small",
        "steps": 6,
        "batch": 2,
        "ema_decay": 0.5,
        "evaluate_every": 3,
        "save_every": 2,
        "data": street(),
        "augment": Augment(crop=SIZE),
    }
    return Recipe(**{**defaults, **settings})


def run(recipe: Recipe, folder: Path) -> list[StepReport]:
    """Train, and return what was reported of each step."""
    reports: list[StepReport] = []
    assert train(recipe, out=folder, machines=CPU, on_step=reports.append) == folder
    return reports


def stop_at(step: int) -> Any:
    """A report that breaks off the run after a step, whether it was saved or not."""

    def on_step(report: StepReport) -> None:
        if report.step == step:
            raise KeyboardInterrupt

    return on_step


def hold_at(step: int, held: Held, module: str = "stmg.training.base.BaseTraining") -> str:
    """Code by which a training of another process is held in the middle of a step."""
    package, _, name = module.rpartition(".")
    return f"""
{held.code}
from {package} import {name} as Training
forward, calls = Training.forward, []
def forward_or_hold(self, batch):
    calls.append(batch)
    if len(calls) == {step}:
        hold()
    return forward(self, batch)
Training.forward = forward_or_hold
"""


def last_weights(folder: Path) -> dict[str, Tensor]:
    return load_file(folder / "last" / "model.safetensors")


def same_weights(first: Path, second: Path) -> bool:
    one, two = last_weights(first), last_weights(second)
    return one.keys() == two.keys() and all(torch.equal(one[name], two[name]) for name in one)
