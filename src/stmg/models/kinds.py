"""Kinds of models, by their names: graph files, exported folders, networks of the package, functions of a user."""

from __future__ import annotations

import re
from pathlib import Path

from stmg.errors import ModelError
from stmg.models.card import CARD
from stmg.runtimes.graph import GRAPH_SUFFIXES
from stmg.runtimes.manifest import MANIFEST


def is_graph_file(name: str) -> bool:
    """Whether this is an .onnx, .xml or .tflite file that somebody exported."""
    return Path(name).suffix in GRAPH_SUFFIXES and Path(name).is_file()


def is_export(name: str) -> bool:
    """Whether this is a folder that stmg exported."""
    return (Path(name) / MANIFEST).is_file()


def refuse_export(folder: Path) -> None:
    """An error where a folder, to which a checkpoint is to be written, holds an export."""
    if is_export(str(folder)):
        raise ModelError(f"{folder} holds an export, which would be loaded instead; choose another folder")


def is_exported(name: str) -> bool:
    """Whether this is either of them, which runs without PyTorch."""
    return is_export(name) or is_graph_file(name)


def is_user_function(name: str) -> bool:
    """Whether a name has the form `module:function`; a path with a drive letter has not."""
    return re.fullmatch(r".+:[A-Za-z_]\w*", name) is not None and not Path(name).exists()


def is_network(name: str) -> bool:
    """Whether this is the name of a network that comes with the package, without weights."""
    if is_exported(name) or (Path(name) / CARD).is_file():  # to know the names is to import PyTorch
        return False
    try:
        from stmg.networks import NETWORKS
    except ModuleNotFoundError:  # without PyTorch there are none
        return False
    return name in NETWORKS


def is_code(name: str) -> bool:
    """Whether this is a network in code, of a user or of the package: it has no card, and takes any size or its own."""
    return is_user_function(name) or is_network(name)
