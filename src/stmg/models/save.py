"""Saving: weights as safetensors with their card as JSON, in a folder or a repository of the Hugging Face Hub."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from stmg.errors import ModelError, SettingsError, explain_missing, first_line
from stmg.files import atomic_path
from stmg.gating.accelerate import AcceleratedNetwork
from stmg.models.card import CARD, Card, card_json
from stmg.models.correctors import refuse_other_corrector, save_corrector
from stmg.models.describe import (
    card_of_network,
    card_of_segmenter,
    corrector_of_segmenter,
    network_of_segmenter,
)
from stmg.models.names import WEIGHTS, refuse_export
from stmg.networks.weights import pack, write_tensors
from stmg.segmenter import VideoSegmenter
from stmg.streaming.working_size import ANY_SIZE


def save(
    model: AcceleratedNetwork | VideoSegmenter, folder: str | Path, card: Card | None = None, *, bits: int = 32
) -> Path:
    """Write a checkpoint and return its folder. An older checkpoint there stays complete until the new one is.

    model: an accelerated network, or a segmenter, whose streaming settings and normalization are saved too.
    card: further properties. Those that the model itself knows (blocks, head, classes) override it.
    bits: of each weight on disk. 16 (half precision) or 8 (INT8 with a scale per output channel) make the file smaller.

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
    # Move the weights into place first: a new card with old weights would be worse than the reverse.
    with atomic_path(folder / CARD) as card_part, atomic_path(folder / WEIGHTS) as weights_part:
        write_tensors(tensors, weights_part)
        card_part.write_text(card_json(card))
    if corrector is not None:
        save_corrector(*corrector, folder)
    return folder


def push_to_hub(
    model: AcceleratedNetwork | VideoSegmenter,
    repo_id: str,
    *,
    card: Card | None = None,
    bits: int = 32,
    private: bool | None = None,
    token: str | None = None,
    commit_message: str = "Upload a checkpoint of stmg",
) -> str:
    """Save a checkpoint to a repository of the Hub, which is created if necessary. Return its address."""
    with explain_missing("huggingface_hub", why="pushing to the Hub needs", extra="hub"):
        from huggingface_hub import HfApi
    with TemporaryDirectory() as folder:
        save(model, folder, card, bits=bits)
        api = HfApi(token=token)
        try:
            url = str(api.create_repo(repo_id, private=private, exist_ok=True))
            api.upload_folder(repo_id=repo_id, folder_path=folder, commit_message=commit_message)
        except Exception as error:  # the Hub and the network raise all kinds of errors
            raise ModelError(f"{repo_id} could not be pushed to the Hub: {first_line(error)}") from error
    return url
