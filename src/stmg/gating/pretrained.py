"""save_pretrained and push_to_hub, as users of Hugging Face know them, for networks and segmenters."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from stmg.errors import MissingPackageError, install_command

if TYPE_CHECKING:
    from os import PathLike


class Pretrained:
    """What can be saved as a checkpoint, and pushed to the Hub."""

    def save_pretrained(self, folder: str | PathLike[str], *, card: object = None, bits: int = 32) -> Path:
        """Write a checkpoint folder, as `stmg.save` does."""
        saved: Path = checkpoints("save").save(self, Path(folder), card, bits=bits)
        return saved

    def push_to_hub(
        self,
        repo_id: str,
        *,
        card: object = None,
        bits: int = 32,
        private: bool | None = None,
        token: str | None = None,
        commit_message: str = "Upload a checkpoint of stmg",
    ) -> str:
        """Save a checkpoint in a repository of the Hub, created if it is not there; returns its address."""
        url: str = checkpoints("save").push_to_hub(
            self, repo_id, card=card, bits=bits, private=private, token=token, commit_message=commit_message
        )
        return url


def checkpoints(name: str) -> ModuleType:
    """A module of `stmg.models`, imported when it is used: it stands above what it saves and loads."""
    try:
        return import_module(f"stmg.models.{name}")
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise MissingPackageError(f"checkpoints need PyTorch: {install_command('torch')}") from None
