"""Checkpoints: weights as safetensors and what they are as JSON, saved and loaded together, by name or path."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from safetensors.torch import save as serialised
from torch import Tensor, nn

from stmg.acceleration.accelerate import AcceleratedNetwork, accelerate
from stmg.card import Card, card_from, settings_of
from stmg.networks import NETWORKS, build
from stmg.runtimes.torch import TorchRuntime, as_device
from stmg.segmenter import VideoSegmenter

WEIGHTS = "model.safetensors"
CARD = "stmg.json"
FORMAT = 1


def save(folder: str | Path, network: AcceleratedNetwork, card: Card | None = None, *, half: bool = False) -> None:
    """Write a checkpoint; an older one in the same folder stays whole until the new one is.

    What the network itself knows (blocks, head, classes) is taken from it, whatever the card says.
    """
    folder = Path(folder)
    card = replace(
        card or Card("own", network.num_classes, network.example_size),
        num_classes=network.num_classes,
        head=network.head,
        blocks=tuple(block.name for block in network.blocks),
        output=network.output,
        mask_generator=network.mask_generator is not None,
        two_weight_sets=network.second is not None,
        distortion_aware=network.mask_generator is None or network.mask_generator.distortion_aware,
    )
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {name: value.detach().cpu().clone().contiguous() for name, value in network.state_dict().items()}
    if half:
        tensors = {name: _halved(value) for name, value in tensors.items()}
    (folder / f"{WEIGHTS}.new").write_bytes(serialised(tensors))
    text = json.dumps({"format": FORMAT, **asdict(card)}, indent=2) + "\n"
    (folder / f"{CARD}.new").write_text(text)
    for name in (WEIGHTS, CARD):
        os.replace(folder / f"{name}.new", folder / name)


def read_card(folder: Path) -> Card:
    """The card of a checkpoint folder, or an error that says what is wrong with it."""
    path = folder / CARD
    if not path.is_file():
        raise ValueError(f"{folder} is no checkpoint: it has no {CARD}")
    try:
        content = json.loads(path.read_text())
        if content.pop("format", None) != FORMAT:
            raise ValueError(f"{path} has another format than {FORMAT}: it needs another version of stmg")
        return card_from(content)
    except (json.JSONDecodeError, TypeError) as error:
        raise ValueError(f"{path} is damaged: {error}") from None


def load_network(
    name: str | Path, model: nn.Module | None = None, device: str | None = None
) -> tuple[AcceleratedNetwork, Card]:
    """The network of a checkpoint with its weights, and its card.

    `model` is the network itself, with any weights, where the checkpoint is of a user's own.
    """
    folder = find(name)
    card = read_card(folder)
    if model is None and card.network not in NETWORKS:
        raise ValueError(f"{folder} is of a network of your own; hand it over: stmg.load({str(name)!r}, model=...)")
    model = build(card.network, card.num_classes) if model is None else model
    place = as_device(device or "cpu")
    network = accelerate(
        model.to(place),
        torch.zeros(1, 3, *card.size, device=place),
        head=card.head,
        blocks=list(card.blocks),
        output=card.output,
        mask_generator=card.mask_generator,
        two_weight_sets=card.two_weight_sets,
        timed=False,
    )
    if network.mask_generator is not None:
        network.mask_generator.distortion_aware = card.distortion_aware
    try:
        tensors = load_file(folder / WEIGHTS, device=str(place))
    except (OSError, SafetensorError) as error:
        raise ValueError(f"{folder / WEIGHTS} cannot be read: {error}") from None
    try:
        network.load_state_dict(tensors)
    except RuntimeError as error:
        first = str(error).splitlines()[1].strip() if "\n" in str(error) else str(error)
        raise ValueError(f"the weights in {folder} are of another network than {card.network}: {first}") from None
    return network, card


def load(
    name: str | Path,
    *,
    model: nn.Module | None = None,
    device: str | None = None,
    precision: str = "fp32",
    **settings: Any,
) -> VideoSegmenter:
    """A segmenter from a shipped name, a checkpoint folder or a Hub id; `settings` are those of `VideoSegmenter`."""
    network, card = load_network(name, model, device)
    runtime = TorchRuntime(network, device=device, precision=precision, mean=card.mean, std=card.std)
    return VideoSegmenter(runtime, **{**settings_of(card), **settings})


def shipped() -> tuple[str, ...]:
    """Names of the checkpoints that come with the package."""
    weights = Path(str(files("stmg") / "weights"))
    return tuple(sorted(path.name for path in weights.iterdir())) if weights.is_dir() else ()


def find(name: str | Path) -> Path:
    """The folder of a checkpoint: a path, a shipped name, or a Hub id that is fetched."""
    folder = Path(name)
    if folder.is_dir():
        return folder
    if str(name) in shipped():
        return Path(str(files("stmg") / "weights" / str(name)))
    if str(name).count("/") == 1 and not folder.parent.exists() and not str(name).startswith((".", "/")):
        return _from_hub(str(name))
    known = ", ".join(shipped()) or "none yet"
    raise ValueError(f"no checkpoint at {name}; give a checkpoint folder, a Hub id or a shipped name ({known})")


def _from_hub(name: str) -> Path:
    try:
        from huggingface_hub import snapshot_download
    except ImportError:
        raise ImportError(f'{name} looks like a Hub id; fetching it needs: pip install "stmg[hub]"') from None
    try:
        return Path(snapshot_download(name, allow_patterns=[WEIGHTS, CARD]))
    except Exception as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ValueError(f"{name} could not be fetched from the Hub: {reason}") from None


def _halved(value: Tensor) -> Tensor:
    """In half precision, unless it has no room for the values."""
    short = value.half() if value.is_floating_point() else value
    return short if bool(torch.isfinite(short).all()) else value
