"""Checkpoints in folders: weights as safetensors and what they are as JSON, saved and loaded together."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import nn

from stmg.errors import ModelError, SettingsError
from stmg.files import atomic_path
from stmg.gating.accelerate import AcceleratedNetwork, accelerate, weight_dtype
from stmg.models.card import CARD, Card, card_json, read_card
from stmg.models.correctors import refuse_other_corrector, save_corrector
from stmg.models.describe import (
    card_of_network,
    card_of_segmenter,
    corrector_of_segmenter,
    network_of_segmenter,
)
from stmg.models.kinds import refuse_export
from stmg.models.locate import WEIGHTS, find_checkpoint
from stmg.models.resolve import ANY_SIZE
from stmg.models.tensor_files import write_tensors
from stmg.networks import NETWORKS, build
from stmg.networks.packing import pack, unpack
from stmg.runtimes.torch import find_device
from stmg.segmenter import VideoSegmenter


def save(
    model: AcceleratedNetwork | VideoSegmenter, folder: str | Path, card: Card | None = None, *, bits: int = 32
) -> Path:
    """Write a checkpoint and return its folder; an older one there stays whole until the new one is.

    model: an accelerated network, or a segmenter, whose streaming settings and normalization are saved too.
    card: what should be known besides; what the model itself knows (blocks, head, classes) is taken from it.
    bits: of each weight on disk; 16 (half precision) or 8 (with a scale per output channel) make the file smaller.

        stmg.load(stmg.save(network, "folder"))  # of a network of your own: stmg.load("folder", model=my_model)
    """
    if isinstance(model, str | Path):
        raise SettingsError("save takes the network first and the folder second: stmg.save(network, folder)")
    folder, corrector = Path(folder), None
    if isinstance(model, VideoSegmenter):
        network, card = network_of_segmenter(model), card_of_segmenter(model, card)
        corrector = corrector_of_segmenter(model, card.size or ANY_SIZE)
    elif isinstance(model, AcceleratedNetwork):
        network, card = model, card_of_network(model, card)
    else:
        kind = type(model).__name__
        raise ModelError(f"save takes an accelerated network or a segmenter, not a {kind}; first: stmg.accelerate(...)")
    refuse_export(folder)
    if corrector is None:
        refuse_other_corrector(folder)
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {name: value.detach().cpu().clone().contiguous() for name, value in network.state_dict().items()}
    tensors = pack(tensors, bits)
    # The weights are moved into place first: a card without weights of its own would be worse than the other way.
    with atomic_path(folder / CARD) as card_part, atomic_path(folder / WEIGHTS) as weights_part:
        write_tensors(tensors, weights_part)
        card_part.write_text(card_json(card))
    if corrector is not None:
        save_corrector(*corrector, folder)
    return folder


def load_network(
    name: str | Path,
    model: nn.Module | None = None,
    device: str | None = None,
    *,
    size: tuple[int, int] | None = None,
    timed: bool = False,
) -> tuple[AcceleratedNetwork, Card]:
    """The network of a checkpoint with its weights, and its card.

    model: the network itself, with any weights, where the checkpoint is of a user's own.
    size: (H, W) to count and time its blocks at; the card's if not given.
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
    network = accelerate(
        model.to(target),
        torch.zeros(1, 3, *(size or card.size or ANY_SIZE), device=target, dtype=weight_dtype(model)),
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
