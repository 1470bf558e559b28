"""Networks of PyTorch as a user names them on the command line."""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import nn

from stmg.acceleration.accelerate import AcceleratedNetwork, accelerate
from stmg.card import IMAGENET_MEAN, IMAGENET_STD
from stmg.checkpoint import find, load, load_network, read_card
from stmg.networks import NETWORKS, build
from stmg.networks.foreign import load_foreign, named_like, read_state_dict
from stmg.runtimes.torch import TorchRuntime, as_device
from stmg.segmenter import VideoSegmenter


def torch_segmenter(
    model: str,
    weights: Path | None,
    size: tuple[int, int],
    device: str | None,
    precision: str,
    normalise: Any,
    untrained: bool,
    **settings: Any,
) -> VideoSegmenter:
    """A segmenter from a shipped name, a checkpoint folder, a Hub id, `file.py:function`, or a network and weights."""
    if is_checkpoint(model, weights, normalise):
        return load(model, device=device, precision=precision, **settings)
    if is_code(model):
        network = from_code(model)
        if weights is not None:
            load_foreign(network, read_state_dict(weights))
    elif weights is not None:
        network = weighted(model, weights)
    elif untrained:
        torch.manual_seed(0)
        network = build(model, 19)
    else:
        raise ValueError(f"{model} is a network without weights; give it some with --weights, or a checkpoint folder")
    if isinstance(network, nn.Module):
        mean, std = normalise or (IMAGENET_MEAN, IMAGENET_STD)
        gated = _accelerated(network, size, device, timed=False)
        network = TorchRuntime(gated, device=device, precision=precision, mean=mean, std=std)
    elif normalise is not None:
        raise ValueError(f"{model} gives a {type(network).__name__}, which gets images as they are: no --normalise")
    return VideoSegmenter(network, **settings)


def network_for(
    model: str, size: tuple[int, int] | None, num_classes: int | None, device: str | None
) -> tuple[AcceleratedNetwork, tuple[int, int]]:
    """The network behind a name and the size to look at it in; names of bare architectures are allowed here."""
    if is_code(model) or model in NETWORKS:
        network = from_code(model) if is_code(model) else build(model, num_classes or 19)
        if not isinstance(network, nn.Module):
            raise ValueError(f"{model} gives a {type(network).__name__}; only a torch.nn.Module can be looked into")
        size = size or (360, 480)
    else:
        size = size or read_card(find(model)).size
        network = load_network(model)[0].plain()
    return _accelerated(network, size, device, timed=True), size


def _accelerated(network: nn.Module, size: tuple[int, int], device: str | None, timed: bool) -> AcceleratedNetwork:
    if isinstance(network, AcceleratedNetwork):
        return network
    place = as_device(device or "cpu")
    return accelerate(network.to(place), torch.zeros(1, 3, *size, device=place), timed=timed)


def weighted(name: str, weights: Path) -> nn.Module:
    """A network of the package with the weights of a foreign checkpoint, for as many classes as that has."""
    state = read_state_dict(weights)
    two, three = (build(name, number).state_dict() for number in (2, 3))
    state = named_like(state, two)
    depends = [tensor for tensor in two if two[tensor].shape != three[tensor].shape]
    if depends[0] not in state:
        raise ValueError(f"{weights} has no {depends[0]}: it was not trained to segment, or is of another network")
    network = build(name, len(state[depends[0]]))
    load_foreign(network, state)
    return network


def is_code(model: str) -> bool:
    """Whether a name has the form `place:function`; a path with a drive letter has not."""
    return re.fullmatch(r".+:[A-Za-z_]\w*", model) is not None and not Path(model).exists()


def is_checkpoint(model: str, weights: Path | None, normalise: Any = None) -> bool:
    """Whether a name is neither a network's nor a function's: it then brings its own weights and takes no others."""
    if is_code(model) or model in NETWORKS:
        return False
    if weights is not None:
        raise ValueError(f"--weights goes with one of the networks {', '.join(NETWORKS)} or file.py:function")
    if normalise is not None:
        raise ValueError(f"{model} says itself how it is normalised; --normalise is for networks that do not")
    return True


def from_code(entry: str) -> Any:
    """What the function named by `file.py:function` or `package.module:function` returns."""
    place, _, function = entry.rpartition(":")
    try:
        module = _module(place)
    except ModuleNotFoundError as error:
        raise ValueError(f"{entry}: {error}") from None
    if not hasattr(module, function):
        names = [name for name in vars(module) if not name.startswith("_") and callable(vars(module)[name])]
        raise ValueError(f"{place} has no {function!r}; it has: {', '.join(names) or 'nothing to call'}")
    return getattr(module, function)()


def _module(place: str) -> ModuleType:
    path = Path(place)
    if path.suffix != ".py":
        return importlib.import_module(place)
    if not path.is_file():
        raise ValueError(f"{path} does not exist")
    sys.path.insert(0, str(path.parent.resolve()))  # so that it finds its neighbours, as when run itself
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module
