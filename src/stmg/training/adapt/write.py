"""What `adapt` leaves: the model with its corrector beside it, in one folder that loads as any other model."""

from __future__ import annotations

import shutil
from pathlib import Path

from stmg.checkpoints.card import CARD
from stmg.checkpoints.correctors import GraphModel, describe_corrector, save_corrector
from stmg.checkpoints.locate import WEIGHTS, find_checkpoint
from stmg.checkpoints.resolve import ModelSpec, is_export, is_graph_file, is_network
from stmg.checkpoints.user_code import is_user_function
from stmg.files import path_inside
from stmg.runtimes.normalization import Normalization
from stmg.training.adapt.train import Adapted


def write_adapted(spec: ModelSpec, adapted: Adapted, motion: str, notes: dict[str, object], folder: Path) -> bool:
    """Write the corrector, and a copy of its model where that is a file or a folder; whether there is a copy."""
    folder.mkdir(parents=True, exist_ok=True)
    graph = _copy_model(spec, folder)
    between = adapted.check.between.is_less
    card = describe_corrector(adapted.module, adapted.size, motion, between=between, graph=graph, notes=notes)
    save_corrector(adapted.module, card, folder)
    return not (is_user_function(spec.name) or is_network(spec.name))


def _copy_model(spec: ModelSpec, folder: Path) -> GraphModel | None:
    files = list_model_files(spec)
    for file in files:
        target = folder / file.relative_to(files[0].parent)
        target.parent.mkdir(parents=True, exist_ok=True)
        _copy(file, target)
    if not is_graph_file(spec.name):
        return None
    normalization = spec.normalization or Normalization()
    return GraphModel(
        file=Path(spec.name).name,
        mean=tuple(normalization.mean),
        std=tuple(normalization.std),
        output=None if spec.output is None else str(spec.output),
        activation=spec.activation,
        threshold=spec.threshold,
    )


def list_model_files(spec: ModelSpec) -> list[Path]:
    """The files of a model, all below the folder of the first one; none where it is code."""
    if is_user_function(spec.name) or is_network(spec.name):
        return []
    if is_graph_file(spec.name):
        return list_graph_files(Path(spec.name))
    if is_export(spec.name):
        return [part for part in Path(spec.name).iterdir() if part.is_file()]
    source = find_checkpoint(spec.name)
    return [source / CARD, source / WEIGHTS]


def list_graph_files(path: Path) -> list[Path]:
    """A graph file and what belongs to it: the weights of OpenVINO, and those that an ONNX file keeps beside itself."""
    files = [path]
    if path.suffix == ".xml":
        files.append(path.with_suffix(".bin"))
    if path.suffix == ".onnx":
        import onnx

        tensors = onnx.load(str(path), load_external_data=False).graph.initializer
        names = {entry.value for tensor in tensors for entry in tensor.external_data if entry.key == "location"}
        files += [path_inside(path.parent, name) for name in sorted(names)]
    return files


def _copy(source: Path, target: Path) -> None:
    if not (target.exists() and target.samefile(source)):
        shutil.copyfile(source, target)
