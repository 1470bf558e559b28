"""Files of a model: those to copy it with, and those that its results depend on."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from stmg.errors import ModelError, explain_missing, first_line
from stmg.files import path_inside
from stmg.models.card import CARD
from stmg.models.correctors import FILES as CORRECTOR_FILES
from stmg.models.names import (
    LIBRARY_FILES,
    PICKLED,
    WEIGHTS,
    find_checkpoint,
    is_code,
    is_export,
    is_graph_file,
    is_library_folder,
    is_library_name,
    is_torch_file,
    is_user_function,
)

if TYPE_CHECKING:
    from stmg.models.spec import ModelSpec


def list_model_files(spec: ModelSpec) -> list[Path]:
    """The files of a model, all below the folder of the first one; empty for code."""
    if is_code(spec.name) or is_library_name(spec.name):
        return []
    if is_torch_file(spec.name):
        return [Path(spec.name)]
    if is_graph_file(spec.name):
        return list_graph_files(Path(spec.name))
    if is_export(spec.name):
        return sorted(part for part in Path(spec.name).iterdir() if part.is_file())
    source = find_checkpoint(spec.name)
    if is_library_folder(source):
        files = (file for pattern in (WEIGHTS, *LIBRARY_FILES, *PICKLED) for file in source.glob(pattern))
        return sorted(files)
    return [source / CARD, source / WEIGHTS]


def list_graph_files(path: Path) -> list[Path]:
    """A graph file with its weight files: those of OpenVINO, and external data of ONNX."""
    files = [path]
    if path.suffix == ".xml":
        files.append(path.with_suffix(".bin"))
    if path.suffix == ".onnx":
        stat = path.stat()
        files += [path_inside(path.parent, name) for name in _external_names(path, stat.st_size, stat.st_mtime_ns)]
    return files


def list_companion_files(spec: ModelSpec) -> list[Path]:
    """Existing files that a model uses besides its own: weights, corrector, and the code of a network."""
    files = [] if spec.settings.weights is None else [Path(spec.settings.weights)]
    corrector = spec.options.get("corrector", spec.name)
    if corrector != "none":
        files += [Path(corrector) / name for name in CORRECTOR_FILES]
    functions = [name for name in (spec.name, spec.settings.network) if name is not None and is_user_function(name)]
    files += [Path(name.rpartition(":")[0]) for name in functions]
    return [file for file in files if file.is_file()]


@lru_cache(maxsize=8)
def _external_names(path: Path, size: int, time: int) -> tuple[str, ...]:
    """Names of the external data files of an ONNX file, cached by its size and time."""
    why = f"finding the external weights of {path} needs"
    with explain_missing("onnx", why=why, extra="export"):
        import onnx
    try:
        tensors = onnx.load(str(path), load_external_data=False).graph.initializer
    except Exception as error:  # parsers raise all kinds of errors
        raise ModelError(f"{path} cannot be read: {first_line(error)}") from error
    entries = (entry for tensor in tensors for entry in tensor.external_data)
    return tuple(sorted({entry.value for entry in entries if entry.key == "location"}))
