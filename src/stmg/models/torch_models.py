"""PyTorch networks behind a spec: checkpoints, networks of the package, and the user's own modules."""

from __future__ import annotations

import mmap
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import nn

from stmg.errors import ModelError, SettingsError
from stmg.gating.accelerate import AcceleratedNetwork, accelerate_at
from stmg.models.card import Card, read_card
from stmg.models.libraries import open_library_model
from stmg.models.names import (
    WEIGHTS,
    find_checkpoint,
    is_code,
    is_exported,
    is_network,
    is_torch_file,
    is_user_function,
)
from stmg.models.palettes import find_palette
from stmg.models.spec import ModelSpec
from stmg.models.transformers import LibraryModel, read_pipeline
from stmg.models.user_code import call_user_function
from stmg.networks import NETWORKS, build
from stmg.networks.weights import load_foreign, match_names, read_state_dict, unpack
from stmg.runtimes.torch import TorchRuntime, find_device
from stmg.streaming.working_size import ANY_SIZE
from stmg.video.labels import MAX_CLASSES
from stmg.video.normalization import Normalization

NUM_CLASSES = 19  # of a network without weights, as in Cityscapes


def open_torch(spec: ModelSpec, model: object = None) -> tuple[TorchRuntime, dict[str, Any]]:
    """Open the runtime of a spec in PyTorch, with its intended settings. `model` as in `resolve_network`."""
    settings = spec.settings
    if is_network(spec.name) and settings.weights is None and not settings.untrained:
        raise SettingsError(f"{spec.name} is a network without weights: give it weights, or name a checkpoint")
    restore = _make_restore(spec) if model is None else None
    network, card = resolve_network(spec, model)
    is_assumed = (is_code(spec.name) or is_torch_file(spec.name)) and settings.normalize is None
    runtime = TorchRuntime(
        network,
        device=settings.device,
        precision=settings.precision or "fp32",
        mean=None if is_assumed else card.mean,
        std=None if is_assumed else card.std,
        activation=card.activation,
        threshold=card.threshold,
        restore=restore,
    )
    runtime.is_plain = card.size is None
    if settings.compile:
        runtime.compile()
    options = card.options()
    if is_code(spec.name):
        del options["model_size"]  # the size was chosen for one stream; others may share the network
    return runtime, options


def resolve_network(
    spec: ModelSpec, model: object = None, *, num_classes: int | None = None, timed: bool = False
) -> tuple[AcceleratedNetwork, Card]:
    """The network behind a spec with its card, to inspect or export it. It may be without weights.

    model: the object that a function returned, or the user's own network of a checkpoint.
    num_classes: for a network without weights.
    timed: measure the milliseconds of each block.
    """
    if is_exported(spec.name):
        raise ModelError(f"{spec.name} is exported already; name the PyTorch model it came from")
    if not is_code(spec.name):
        opened = open_library_model(spec.name)
        if opened is not None:
            return _use_library_model(opened, spec, model, num_classes, timed)
        return _load_checkpoint(spec, model, num_classes, timed)
    if spec.settings.network is not None:
        raise SettingsError(f"network cannot be used with {spec.name}: it is for checkpoint folders of your own")
    if is_network(spec.name) and model is not None:
        raise SettingsError(f"model cannot be used with {spec.name}: that is a network of the package")
    if num_classes is not None and (not is_network(spec.name) or spec.settings.weights is not None):
        raise SettingsError(f"the number of classes cannot be chosen for {spec.name}: it has its own")
    network = _make_module(spec, model, num_classes or NUM_CLASSES)
    if not isinstance(network, AcceleratedNetwork):
        network = _accelerate(network, spec, timed)
    elif spec.settings.output is not None:
        raise SettingsError(f"output cannot be used with {spec.name}: its accelerated network already has one")
    normalization = spec.settings.normalize or Normalization()
    card = Card(
        spec.name,
        network.num_classes,
        spec.settings.size,
        mean=normalization.mean,
        std=normalization.std,
        activation=spec.settings.activation,
        threshold=spec.settings.threshold,
        motion="auto",
    )
    return network, card


def open_pipeline(pipeline: Any, device: str | None) -> tuple[TorchRuntime, dict[str, Any]]:
    """The runtime of a pipeline object of transformers, and how it is meant to be run."""
    opened = read_pipeline(pipeline)
    spec = ModelSpec(type(pipeline.model).__name__, {"device": device})
    network, card = _use_library_model(opened, spec, None, None, False)
    runtime = TorchRuntime(network, device=device, mean=card.mean, std=card.std)
    runtime.is_plain = card.size is None
    return runtime, card.options()


def _use_library_model(
    opened: LibraryModel, spec: ModelSpec, model: object, num_classes: int | None, timed: bool
) -> tuple[AcceleratedNetwork, Card]:
    given = {
        "model": model,
        "num_classes": num_classes,
        "network": spec.settings.network,
        "weights": spec.settings.weights,
    }
    for argument, value in given.items():
        if value is not None:
            raise SettingsError(f"{argument} cannot be used with {spec.name}: it is whole")
    network = _accelerate(opened.network, spec, timed)
    normalization = spec.settings.normalize or opened.normalization or Normalization()
    names = opened.class_names if len(opened.class_names) == network.num_classes else ()
    card = Card(
        spec.name,
        network.num_classes,
        network.input_size or opened.size,
        class_names=names,
        palette=find_palette(names),
        mean=normalization.mean,
        std=normalization.std,
        output=_as_key(spec.settings.output),
        activation=spec.settings.activation,
        threshold=spec.settings.threshold,
        motion="auto",
    )
    return network, card


def _accelerate(network: nn.Module, spec: ModelSpec, timed: bool) -> AcceleratedNetwork:
    """A plain network, ready for video, at the size of a spec."""
    network = network.to(find_device(spec.settings.device or "cpu"))
    return accelerate_at(network, spec.settings.size or ANY_SIZE, output=_as_key(spec.settings.output), timed=timed)


def _make_restore(spec: ModelSpec) -> Callable[[], AcceleratedNetwork]:
    """A function that loads the same network again. It raises if the weights have changed."""
    checksum = _checksum(spec)

    def restore() -> AcceleratedNetwork:
        if _checksum(spec) != checksum:
            raise ModelError(f"{spec.name} has changed on disk since it was loaded; load it again to save or export it")
        return resolve_network(spec)[0]

    return restore


def _checksum(spec: ModelSpec) -> int | None:
    """Checksum of the file of weights; None for a shipped name, whose weights never change."""
    file = spec.settings.weights or (Path(spec.name) if is_torch_file(spec.name) else Path(spec.name) / WEIGHTS)
    if not file.is_file() or not file.stat().st_size:
        return None
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return zlib.crc32(content)


def _load_checkpoint(
    spec: ModelSpec, model: object, num_classes: int | None, timed: bool
) -> tuple[AcceleratedNetwork, Card]:
    if spec.settings.weights is not None:
        others = f"{', '.join(NETWORKS)} or file.py:function"
        raise SettingsError(f"weights cannot be used with {spec.name}: it brings its own; they are for {others}")
    if spec.settings.normalize is not None:
        raise SettingsError(f"normalize cannot be used with {spec.name}: its card holds its own mean and std")
    if spec.settings.output is not None:
        raise SettingsError(f"output cannot be used with {spec.name}: it was chosen when it was saved")
    if num_classes is not None:
        raise SettingsError(f"the number of classes cannot be chosen for {spec.name}: it has its own")
    function = spec.settings.network
    if function is not None:
        if model is not None:
            raise SettingsError(f"network cannot be used with {spec.name}: model gives it already")
        if not is_user_function(function):
            raise SettingsError(
                f"network is file.py:function that returns a torch.nn.Module; got {spec.settings.network!r}"
            )
        model = call_user_function(function)
    if model is not None and not isinstance(model, nn.Module):
        what = "model" if function is None else f"what {function} returns"
        raise SettingsError(f"{what} is a torch.nn.Module; got a {type(model).__name__}")
    network, card = load_network(spec.name, model, spec.settings.device, size=spec.settings.size, timed=timed)
    activation = spec.settings.activation or card.activation
    threshold = card.threshold if spec.settings.threshold is None else spec.settings.threshold
    return network, replace(card, activation=activation, threshold=threshold)


def load_network(
    name: str | Path,
    model: nn.Module | None = None,
    device: str | None = None,
    *,
    size: tuple[int, int] | None = None,
    timed: bool = False,
) -> tuple[AcceleratedNetwork, Card]:
    """Load the network of a checkpoint with its weights, and its card.

    model: the user's own network with any weights, if the checkpoint is of one.
    size: (H, W) at which to count and time its blocks. Default: the card's.
    """
    folder = find_checkpoint(name)
    card = read_card(folder)
    if model is None and card.network not in NETWORKS:
        raise SettingsError(
            f"{folder} is of a network of your own; say what builds it: --network file.py:function, or from Python "
            f"stmg.load({str(name)!r}, model=...)"
        )
    model = build(card.network, card.num_classes) if model is None else model
    target = find_device(device or "cpu")
    network = accelerate_at(
        model.to(target),
        size or card.size or ANY_SIZE,
        head=card.head,
        blocks=list(card.blocks),
        output=card.output,
        mask_generator=card.mask_generator,
        two_weight_sets=card.two_weight_sets,
        timed=timed,
    )
    if network.mask_generator is not None:
        network.mask_generator.distortion_aware = card.distortion_aware
    try:
        tensors = unpack(load_file(folder / WEIGHTS, device=str(target)))
    except (OSError, SafetensorError) as error:
        raise ModelError(f"{folder / WEIGHTS} cannot be read: {error}") from None
    try:
        network.load_state_dict(tensors)
    except RuntimeError as error:
        first = str(error).splitlines()[1].strip() if "\n" in str(error) else str(error)
        raise ModelError(f"the weights in {folder} are of another network than {card.network}: {first}") from None
    return network, card


def _as_key(output: str | int | None) -> str | int | None:
    """Convert an index typed as text to a number. Keys and attributes are never numbers."""
    return int(output) if isinstance(output, str) and output.isdecimal() else output


def _make_module(spec: ModelSpec, model: object, num_classes: int) -> nn.Module:
    if not is_user_function(spec.name):
        if spec.settings.weights is not None:
            return load_with_weights(spec.name, spec.settings.weights)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            return build(spec.name, num_classes)
    network = call_user_function(spec.name) if model is None else model
    if not isinstance(network, nn.Module):
        raise ModelError(f"{spec.name} gives {type(network).__name__}, not a torch.nn.Module")
    if spec.settings.weights is not None:
        load_foreign(network, read_state_dict(spec.settings.weights))
    return network


def load_with_weights(name: str, weights: Path) -> nn.Module:
    """Build a network of the package with the weights and the number of classes of a foreign checkpoint."""
    state = read_state_dict(weights)
    two, three = (build(name, number).state_dict() for number in (2, 3))
    state = match_names(state, two)
    of_classes = [tensor for tensor in two if two[tensor].shape != three[tensor].shape]
    if of_classes[0] not in state:
        raise ModelError(f"{weights} has no {of_classes[0]}: it was not trained to segment, or is of another network")
    number = len(state[of_classes[0]])
    if not 1 <= number <= MAX_CLASSES:
        raise ModelError(f"{weights} is for {number} classes; labels are bytes, so there are at most {MAX_CLASSES}")
    network = build(name, number)
    load_foreign(network, state)
    return network
