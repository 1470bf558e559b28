"""Models: their cards and names, and how they are loaded, saved and exported."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from stmg.errors import explain_missing

if TYPE_CHECKING:
    from stmg.gating.accelerate import AcceleratedNetwork
    from stmg.models.card import Card
    from stmg.segmenter import VideoSegmenter


class ModelStore:
    """Saves and loads for `stmg.pretrained`. Imports are done when needed, because exports work without PyTorch."""

    def save(self, model: AcceleratedNetwork | VideoSegmenter, folder: Path, card: Card | None, *, bits: int) -> Path:
        with explain_missing("torch", why="checkpoints need PyTorch", extra="torch"):
            from stmg.models.save import save
        return save(model, folder, card, bits=bits)

    def push_to_hub(self, model: AcceleratedNetwork | VideoSegmenter, repo_id: str, **options: Any) -> str:
        with explain_missing("torch", why="checkpoints need PyTorch", extra="torch"):
            from stmg.models.save import push_to_hub
        return push_to_hub(model, repo_id, **options)

    def load(self, name: str | Path, **options: Any) -> VideoSegmenter:
        from stmg.models.load import load

        return load(name, **options)

    def load_network(self, name: str | Path, model: Any, device: str | None) -> AcceleratedNetwork:
        with explain_missing("torch", why="checkpoints need PyTorch", extra="torch"):
            from stmg.models.torch_models import load_network
        return load_network(name, model, device)[0]

    def open_pipeline(self, pipeline: Any, device: str | None) -> tuple[Any, dict[str, Any]]:
        from stmg.models.torch_models import open_pipeline

        return open_pipeline(pipeline, device)
