"""Checkpoints to the Hugging Face Hub; `locate` finds those that are there."""

from __future__ import annotations

from tempfile import TemporaryDirectory

from stmg.errors import MissingPackageError, ModelError, first_line, install_command
from stmg.gating.accelerate import AcceleratedNetwork
from stmg.models.card import Card
from stmg.models.save import save
from stmg.segmenter import VideoSegmenter


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
    """Save a checkpoint in a repository of the Hub, created if it is not there; its address."""
    try:
        from huggingface_hub import HfApi
    except ImportError:
        raise MissingPackageError(f"pushing to the Hub needs: {install_command('hub')}") from None
    with TemporaryDirectory() as folder:
        save(model, folder, card, bits=bits)
        api = HfApi(token=token)
        try:
            url = str(api.create_repo(repo_id, private=private, exist_ok=True))
            api.upload_folder(repo_id=repo_id, folder_path=folder, commit_message=commit_message)
        except Exception as error:  # whatever the Hub or the network raises
            raise ModelError(f"{repo_id} could not be pushed to the Hub: {first_line(error)}") from None
    return url
