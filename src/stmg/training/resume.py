"""Going on with a run: what is kept of it, and whether a folder holds a run of the same recipe."""

from __future__ import annotations

import os
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import torch

from stmg.config import Recipe, read_recipe, recipe_text

STATE = "state.pt"
RECIPE = "recipe.yaml"
# What may change from one part of a run to the next: it has no bearing on the weights.
FREE = ("notes", "evaluate_every", "save_every", "data.memory", "data.workers")


def claim(recipe: Recipe, folder: Path) -> None:
    """Make a folder this recipe's, or say why it cannot be."""
    written = folder / RECIPE
    if (folder / STATE).is_file() and written.is_file():
        try:
            before = read_recipe(written)
        except ValueError as error:
            raise ValueError(f"{folder} holds a run of another version ({error}); choose another --out") from None
        differ = [name for name in differences(before, recipe) if name not in FREE]
        if differ:
            raise ValueError(
                f"{folder} holds a run with another {', '.join(differ)}; choose another --out, or delete it"
            )
    folder.mkdir(parents=True, exist_ok=True)
    written.write_text(recipe_text(recipe))


def differences(one: Any, two: Any, group: str = "") -> list[str]:
    """Dotted names of the settings in which two recipes differ."""
    found = []
    for item in fields(one):
        a, b, name = getattr(one, item.name), getattr(two, item.name), f"{group}{item.name}"
        if is_dataclass(a):
            found += differences(a, b, f"{name}.")
        elif a != b:
            found.append(name)
    return found


def save_state(folder: Path, state: dict[str, Any]) -> None:
    """Everything to go on from; the older one stays until the new one is whole."""
    content = {name: part.state_dict() if hasattr(part, "state_dict") else dict(part) for name, part in state.items()}
    torch.save(content, folder / f"{STATE}.new")
    os.replace(folder / f"{STATE}.new", folder / STATE)


def load_state(folder: Path, state: dict[str, Any], device: torch.device) -> None:
    """Put back what was saved, if anything was."""
    path = folder / STATE
    if not path.is_file():
        return
    try:
        content = torch.load(path, map_location=device, weights_only=True)
    except Exception as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"{path} cannot be read ({reason}); delete {folder} to start over") from None
    for name, part in state.items():
        if hasattr(part, "load_state_dict"):
            part.load_state_dict(content[name])
        else:
            part.update(content[name])
