"""Models of other libraries by name or file: transformers, torchvision, smp, TorchScript and torch.export."""

from __future__ import annotations

import importlib
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from stmg.errors import MissingPackageError, ModelError, first_line
from stmg.models.names import find_checkpoint, is_library_folder, is_library_name, is_torch_file
from stmg.models.transformers import ImageNetwork, LibraryModel, open_transformers, shape_of_edges
from stmg.networks.weights import read_state_dict
from stmg.video.normalization import Normalization


def open_library_model(name: str) -> LibraryModel | None:
    """The network behind a name, with what is known of it; None if it is a checkpoint of stmg."""
    if is_library_name(name):
        library, _, rest = name.partition(":")
        return _open_torchvision(rest, name) if library == "torchvision" else _open_smp(rest, name)
    if is_torch_file(name):
        return LibraryModel(_open_file(Path(name)))
    folder = find_checkpoint(name)
    return open_transformers(folder, name) if is_library_folder(folder) else None


def _open_torchvision(network: str, name: str) -> LibraryModel:
    models = _import("torchvision.models", name, "torchvision")
    known = models.list_models(module=importlib.import_module("torchvision.models.segmentation"))
    if network not in known:
        raise ModelError(f"torchvision has no segmentation network {network}; it has {', '.join(known)}")
    try:
        weights = models.get_model_weights(network).DEFAULT
        module = models.get_model(network, weights=weights, progress=False)
    except Exception as error:  # the download or the disk may raise anything
        raise ModelError(f"{name} could not be loaded: {first_line(error)}") from error
    transforms = weights.transforms()
    edges = list(transforms.resize_size)
    return LibraryModel(
        module,
        Normalization(tuple(transforms.mean), tuple(transforms.std)),
        (edges[0], edges[1]) if len(edges) == 2 else shape_of_edges(edges[0]),
        tuple(each.strip("_") for each in weights.meta["categories"]),
    )


def _open_smp(place: str, name: str) -> LibraryModel:
    smp = _import("segmentation_models_pytorch", name, "segmentation-models-pytorch")
    folder = find_checkpoint(place)
    try:
        module = smp.from_pretrained(str(folder), encoder_weights=None)  # else it would download others first
    except Exception as error:  # smp may raise anything for such files
        raise ModelError(f"{name} could not be loaded: {first_line(error)}") from error
    try:
        encoder = dict(module.config)["encoder_name"]
        stated = smp.encoders.get_preprocessing_params(encoder)
    except Exception:  # an encoder without weights of its own, or no way to the Hub
        return LibraryModel(module)
    scale = 1.0 if stated["input_range"][1] == 1 else 255.0
    mean, std = (tuple(value / scale for value in stated[key]) for key in ("mean", "std"))
    bgr = stated["input_space"] == "BGR"
    return LibraryModel(ImageNetwork(module, True, None) if bgr else module, Normalization(mean, std))


def _import(module: str, name: str, package: str) -> Any:
    top = module.partition(".")[0]
    try:
        importlib.import_module(top)
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name == top:
            raise MissingPackageError(f"{name} needs {package}: pip install {package}") from error
        raise ModelError(f"{name} needs {package}, which does not work here: {first_line(error)}") from error
    except (ImportError, RuntimeError) as error:  # torchvision, where it is for another PyTorch
        raise ModelError(f"{name} needs {package}, which does not work here: {first_line(error)}") from error


class ExportedProgram(nn.Module):
    """A module saved by torch.export. It stays in the mode, training or not, that it was exported in."""

    def __init__(self, program: Any) -> None:
        super().__init__()
        self.program = program.module()
        images = [
            node.meta["val"].shape for node in program.graph.nodes if node.name in program.graph_signature.user_inputs
        ]
        if len(images) != 1 or len(images[0]) != 4:
            raise ModelError("it takes more than one image")
        if all(isinstance(side, int) for side in images[0][2:]):
            self.image_size = tuple(images[0][2:])

    def forward(self, image: Tensor) -> Any:
        return self.program(image)

    def train(self, mode: bool = True) -> ExportedProgram:
        self.training = mode
        return self


def _open_file(path: Path) -> nn.Module:
    if path.suffix == ".pt2":
        try:
            with _weights_only():
                return ExportedProgram(torch.export.load(path))
        except Exception as error:  # torch may raise anything for such a file
            raise ModelError(f"{path} cannot be read by torch.export.load: {first_line(error)}") from error
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            network: nn.Module = torch.jit.load(path, map_location="cpu")  # type: ignore[no-untyped-call]
            return network
    except (RuntimeError, ValueError):  # not TorchScript
        read_state_dict(path)
    raise ModelError(f"{path} holds weights alone; add the network: --model nets.py:function --weights {path}")


@contextmanager
def _weights_only() -> Iterator[None]:
    """Have torch.load refuse code, to which torch.export falls back for what is not weights."""
    name = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"
    before = os.environ.get(name)
    os.environ[name] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
