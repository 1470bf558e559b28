"""Where checkpoints are: shipped with the package, in a folder, or on the Hugging Face Hub."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from stmg.checkpoints.card import CARD
from stmg.errors import MissingPackageError, ModelError

WEIGHTS = "model.safetensors"


def shipped_names() -> tuple[str, ...]:
    """Names of the checkpoints that come with the package."""
    weights = Path(str(files("stmg") / "weights"))
    return tuple(sorted(path.name for path in weights.iterdir())) if weights.is_dir() else ()


def find_checkpoint(name: str | Path) -> Path:
    """The folder of a checkpoint: a path, a shipped name, or a Hub id that is downloaded."""
    folder = Path(name)
    if folder.is_dir():
        return folder
    if str(name) in shipped_names():
        return Path(str(files("stmg") / "weights" / str(name)))
    if str(name).count("/") == 1 and not folder.parent.exists() and not str(name).startswith((".", "/")):
        return _download(str(name))
    known = ", ".join(shipped_names()) or "none yet"
    raise ModelError(f"no checkpoint at {name}; give a checkpoint folder, a Hub id or a shipped name ({known})")


def _download(name: str) -> Path:
    try:
        from huggingface_hub import snapshot_download
    except ImportError:
        raise MissingPackageError(f'{name} looks like a Hub id; loading it needs: pip install "stmg[hub]"') from None
    try:
        return Path(snapshot_download(name, allow_patterns=[WEIGHTS, CARD]))
    except Exception as error:  # whatever the Hub, the network or the disk raises
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ModelError(f"{name} could not be downloaded from the Hub: {reason}") from None
