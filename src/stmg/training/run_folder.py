"""The folder of a run: its description, the state to resume from, curves and pictures."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import cv2
import torch
from torch import nn, optim
from torch.optim.swa_utils import AveragedModel

from stmg.errors import SettingsError, TrainingError, first_line
from stmg.files import atomic_path, build_dataclass, read_mapping, write_atomically
from stmg.networks.weights import write_state
from stmg.training.recipe import to_yaml
from stmg.video.frames import Image

if TYPE_CHECKING:
    from _typeshed import DataclassInstance
    from torch.utils.tensorboard import SummaryWriter

STATE = "state.pt"
RECIPE = "recipe.yaml"
Description = TypeVar("Description", bound="DataclassInstance")


@dataclass
class RunRecord:
    """Progress of a run."""

    step: int = 0
    """Steps done."""
    evaluated: int = 0
    """The step of the last evaluation."""
    best: float = -math.inf
    """Highest score so far on the split `val`; -inf if nothing is scored."""
    val: str = ""
    figures: dict[str, float] | None = None
    """Results of the last evaluation."""
    minutes: float = 0.0

    def score_on(self, val: str) -> None:
        """Set the split to score on. Scores of another split do not compare."""
        if val != self.val:
            self.best, self.val = -math.inf, val

    def state_dict(self) -> dict[str, object]:
        return asdict(self)

    def load_state_dict(self, content: dict[str, object]) -> None:
        # Earlier versions saved the state of a step only after its evaluation.
        for name, value in {"evaluated": content["step"], **content}.items():
            setattr(self, name, value)


@dataclass
class TrainingState:
    """Everything that is needed to resume a run."""

    module: nn.Module
    optimizer: optim.Optimizer
    progress: RunRecord
    precision: Any
    """Fabric's precision, with the loss scale of half precision."""
    average: AveragedModel | None = None

    def save(self, folder: Path) -> None:
        """Save the state. The previous state stays until this one is complete."""
        with atomic_path(folder / STATE) as part:
            write_state({name: part.state_dict() for name, part in self._parts().items()}, part)

    def load(self, folder: Path, device: torch.device) -> None:
        """Restore the saved state, if there is one."""
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


def claim_folder(description: Description, folder: Path, free: Sequence[str] = (), begun: str = STATE) -> None:
    """Claim a folder for the run that a dataclass describes. Raise if it holds another run.

    free: dotted names of settings that may change when the run is resumed.
    begun: the file or folder that exists once a run has started.
    """
    path = folder / RECIPE
    if (folder / begun).exists() and path.is_file():
        try:
            before = build_dataclass(type(description), read_mapping(path, SettingsError))
        except SettingsError as error:
            raise SettingsError(f"{folder} holds a run of another version ({error}); choose another --out") from None
        changed = [name for name in find_differences(before, description) if name not in free]
        if changed:
            raise SettingsError(
                f"{folder} holds a run with another {', '.join(changed)}; choose another --out, or delete it"
            )
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(path, to_yaml(description).encode())


def find_differences(one: DataclassInstance, two: DataclassInstance, group: str = "") -> list[str]:
    """Dotted names of the settings that differ between two dataclasses."""
    names = []
    for item in fields(one):
        a, b, name = getattr(one, item.name), getattr(two, item.name), f"{group}{item.name}"
        if is_dataclass(a) and not isinstance(a, type):
            names += find_differences(a, b, f"{name}.")
        elif a != b:
            names.append(name)
    return names


class Log:
    """Curves and pictures for TensorBoard, and pictures as files. Without TensorBoard: only the files."""

    def __init__(self, folder: Path, step: int) -> None:
        """Log from a step on. Drop entries of an interrupted run beyond it."""
        self.folder = folder
        self._writer: SummaryWriter | None = None
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ModuleNotFoundError as error:
            if error.name != "tensorboard":
                raise
            return
        self._writer = SummaryWriter(str(folder / "tensorboard"), purge_step=step + 1)

    def add_values(self, group: str, values: Mapping[str, float], step: int) -> None:
        if self._writer is not None:
            for name, value in values.items():
                self._writer.add_scalar(f"{group}/{name}", value, step)

    def add_picture(self, picture: Image, step: int) -> None:
        if self._writer is not None:
            self._writer.add_image("val/picture", picture, step, dataformats="HWC")
        folder = self.folder / "pictures"
        folder.mkdir(parents=True, exist_ok=True)
        bgr = cv2.cvtColor(picture, cv2.COLOR_RGB2BGR)
        _, data = cv2.imencode(".jpg", bgr, [cv2.IMWRITE_JPEG_QUALITY, 85])
        write_atomically(folder / f"{step:06d}.jpg", data.tobytes())

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
