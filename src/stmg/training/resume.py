"""Resuming a run: what is saved of it, and whether a folder holds a run of the same recipe."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn, optim
from torch.optim.swa_utils import AveragedModel

from stmg.errors import SettingsError, TrainingError, first_line
from stmg.files import atomic_path, write_atomically
from stmg.models.tensor_files import write_state
from stmg.training.recipe import Recipe, format_recipe, read_recipe

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

STATE = "state.pt"
RECIPE = "recipe.yaml"
# What may change from one part of a run to the next: it has no bearing on the weights.
FREE = ("notes", "evaluate_every", "save_every", "data.cache_gb", "data.workers", "data.val")


@dataclass
class Progress:
    """How far a run has come."""

    step: int = 0
    """Steps done."""
    best: float = -math.inf
    """The largest score so far, on the split `val`; where nothing is scored there is none."""
    val: str = ""
    figures: dict[str, float] | None = None
    """Of the last evaluation."""
    minutes: float = 0.0

    def score_on(self, val: str) -> None:
        """Score on this split from now on; scores of another one do not compare."""
        if val != self.val:
            self.best, self.val = -math.inf, val

    def state_dict(self) -> dict[str, object]:
        return asdict(self)

    def load_state_dict(self, content: dict[str, object]) -> None:
        for name, value in content.items():
            setattr(self, name, value)


@dataclass
class TrainingState:
    """Everything to resume a run from."""

    module: nn.Module
    optimizer: optim.Optimizer
    progress: Progress
    precision: Any
    """Fabric's, with the loss scale of half precision."""
    average: AveragedModel | None = None

    def save(self, folder: Path) -> None:
        """The state that was saved before stays until this one is whole."""
        with atomic_path(folder / STATE) as part:
            write_state({name: part.state_dict() for name, part in self._parts().items()}, part)

    def load(self, folder: Path, device: torch.device) -> None:
        """Put back what was saved, if anything was."""
        path = folder / STATE
        if not path.is_file():
            return
        try:
            content = torch.load(path, map_location=device, weights_only=True)
            for name, part in self._parts().items():
                part.load_state_dict(content[name])
        except Exception as error:
            raise TrainingError(
                f"{path} cannot be resumed from ({first_line(error)}); delete {folder} to start over"
            ) from None

    def _parts(self) -> dict[str, Any]:
        parts = {item.name: getattr(self, item.name) for item in fields(self)}
        return {name: part for name, part in parts.items() if part is not None}


def claim_folder(recipe: Recipe, folder: Path) -> None:
    """Make a folder this recipe's, or say why it cannot be."""
    path = folder / RECIPE
    if (folder / STATE).is_file() and path.is_file():
        try:
            before = read_recipe(path)
        except SettingsError as error:
            raise SettingsError(f"{folder} holds a run of another version ({error}); choose another --out") from None
        changed = [name for name in find_differences(before, recipe) if name not in FREE]
        if changed:
            raise SettingsError(
                f"{folder} holds a run with another {', '.join(changed)}; choose another --out, or delete it"
            )
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(path, format_recipe(recipe).encode())


def find_differences(one: DataclassInstance, two: DataclassInstance, group: str = "") -> list[str]:
    """Dotted names of the settings in which two recipes differ."""
    names = []
    for item in fields(one):
        a, b, name = getattr(one, item.name), getattr(two, item.name), f"{group}{item.name}"
        if is_dataclass(a) and not isinstance(a, type):
            names += find_differences(a, b, f"{name}.")
        elif a != b:
            names.append(name)
    return names
