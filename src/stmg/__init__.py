"""stmg: faster video segmentation by not computing again what has not changed."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stmg.acceleration.accelerate import AcceleratedNetwork, accelerate
    from stmg.card import Card
    from stmg.checkpoint import save
    from stmg.frames import Frame
    from stmg.loading import load
    from stmg.masking import Masking
    from stmg.runtimes.torch import TorchRuntime
    from stmg.scheduler import AlwaysKey, DriftBudget, FixedPeriod, Level, PaperScheduler, PerFramePruning
    from stmg.segmenter import VideoSegmenter
    from stmg.state import FrameResult, FrameState
    from stmg.video import VideoError, open_video

__version__ = "0.1.0"

# Names are imported when they are used: what runs without PyTorch must not need it installed.
_HOMES = {
    "stmg.acceleration.accelerate": ("AcceleratedNetwork", "accelerate"),
    "stmg.card": ("Card",),
    "stmg.checkpoint": ("save",),
    "stmg.frames": ("Frame",),
    "stmg.loading": ("load",),
    "stmg.masking": ("Masking",),
    "stmg.runtimes.torch": ("TorchRuntime",),
    "stmg.scheduler": ("AlwaysKey", "DriftBudget", "FixedPeriod", "Level", "PaperScheduler", "PerFramePruning"),
    "stmg.segmenter": ("VideoSegmenter",),
    "stmg.state": ("FrameResult", "FrameState"),
    "stmg.video": ("VideoError", "open_video"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "AcceleratedNetwork",
    "AlwaysKey",
    "Card",
    "DriftBudget",
    "FixedPeriod",
    "Frame",
    "FrameResult",
    "FrameState",
    "Level",
    "Masking",
    "PaperScheduler",
    "PerFramePruning",
    "TorchRuntime",
    "VideoError",
    "VideoSegmenter",
    "accelerate",
    "load",
    "open_video",
    "save",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'stmg' has no attribute {name!r}")
    try:
        return getattr(import_module(_HOME_OF[name]), name)
    except ModuleNotFoundError as error:
        if error.name == "torch":
            raise ImportError(f'stmg.{name} needs PyTorch: pip install "stmg[torch]"') from None
        raise


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
