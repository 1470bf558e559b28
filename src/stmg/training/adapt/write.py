"""What `adapt` leaves: the model with its corrector beside it, in one folder that loads as any other model."""

from __future__ import annotations

import shutil
from pathlib import Path

from stmg.models.correctors import GraphModel, describe_corrector, save_corrector
from stmg.models.model_files import list_model_files
from stmg.models.names import is_code, is_graph_file
from stmg.models.spec import ModelSpec
from stmg.training.adapt.train import Adapted
from stmg.video.normalization import Normalization


def write_adapted(spec: ModelSpec, adapted: Adapted, motion: str, notes: dict[str, object], folder: Path) -> bool:
    """Write the corrector, and a copy of its model where that is a file or a folder; whether there is a copy."""
    folder.mkdir(parents=True, exist_ok=True)
    graph = _copy_model(spec, folder)
    between = adapted.check.between.is_less
    card = describe_corrector(adapted.module, adapted.size, motion, between=between, graph=graph, notes=notes)
    save_corrector(adapted.module, card, folder)
    return not is_code(spec.name)


def _copy_model(spec: ModelSpec, folder: Path) -> GraphModel | None:
    files = list_model_files(spec)
    for file in files:
        target = folder / file.relative_to(files[0].parent)
        target.parent.mkdir(parents=True, exist_ok=True)
        _copy(file, target)
    if not is_graph_file(spec.name):
        return None
    normalization = spec.settings.normalize or Normalization()
    return GraphModel(
        file=Path(spec.name).name,
        mean=tuple(normalization.mean),
        std=tuple(normalization.std),
        output=None if spec.settings.output is None else str(spec.settings.output),
        activation=spec.settings.activation,
        threshold=spec.settings.threshold,
    )


def _copy(source: Path, target: Path) -> None:
    if not (target.exists() and target.samefile(source)):
        shutil.copyfile(source, target)
