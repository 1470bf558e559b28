"""save_pretrained, push_to_hub and from_pretrained, as in Hugging Face, for networks and segmenters.

Both lie below `stmg.models`, which saves and loads them; `stmg/__init__.py` provides it to them.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from os import PathLike


class Store(Protocol):
    """Saves and loads networks and segmenters."""

    def save(self, model: Any, folder: Path, card: Any, *, bits: int) -> Path:
        """Write a checkpoint folder."""

    def push_to_hub(self, model: Any, repo_id: str, **options: Any) -> str:
        """Write a checkpoint to the Hub; returns its address."""

    def load(self, name: str | Path, **options: Any) -> Any:
        """The segmenter of a name."""

    def load_network(self, name: str | Path, model: Any, device: str | None) -> Any:
        """The network of a checkpoint."""

    def open_pipeline(self, pipeline: Any, device: str | None) -> tuple[Any, dict[str, Any]]:
        """The runtime of a pipeline object of transformers, with its intended settings, as fields of `Settings`."""


_open: Callable[[], Store] | None = None


def provide_store(open_store: Callable[[], Store]) -> None:
    """Set the function that opens the store. It is called when something is saved or loaded."""
    global _open
    _open = open_store


def open_store() -> Store:
    """The store that was provided."""
    assert _open is not None
    return _open()


class Pretrained:
    """Base of classes that can be saved as a checkpoint or pushed to the Hub."""

    def save_pretrained(self, folder: str | PathLike[str], *, card: object = None, bits: int = 32) -> Path:
        """Write a checkpoint folder, as `stmg.save` does."""
        return open_store().save(self, Path(folder), card, bits=bits)

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
        """Save a checkpoint in a repository of the Hub, which is created if necessary. Return its address."""
        return open_store().push_to_hub(
            self, repo_id, card=card, bits=bits, private=private, token=token, commit_message=commit_message
        )
