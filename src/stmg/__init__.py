"""stmg: faster video segmentation by not computing again what has not changed."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from stmg.errors import (
    DataError,
    FrameError,
    MissingPackageError,
    ModelError,
    SettingsError,
    SourceLostError,
    StmgError,
    StmgWarning,
    TrainingError,
    VideoError,
    install_command,
)
from stmg.pretrained import Store, provide_store

if TYPE_CHECKING:
    from stmg.evaluation.evaluate import evaluate
    from stmg.evaluation.results import Goal
    from stmg.evaluation.tune import tune
    from stmg.gating.accelerate import AcceleratedNetwork, accelerate
    from stmg.jobs.batch import batch
    from stmg.models.card import Card
    from stmg.models.export import export
    from stmg.models.load import load, resolve
    from stmg.models.save import save
    from stmg.models.spec import ModelSpec
    from stmg.outputs.sinks import Sink
    from stmg.runtimes.torch import TorchRuntime
    from stmg.segmenter import VideoSegmenter
    from stmg.streaming.logits import Foreground
    from stmg.streaming.masks import Masking, Masks
    from stmg.streaming.motion import MotionEstimator
    from stmg.streaming.online import FrameState
    from stmg.streaming.result import FrameResult
    from stmg.streaming.runtime import Output, Runtime
    from stmg.streaming.schedulers import (
        AlwaysKey,
        DriftBudget,
        FixedPeriod,
        Level,
        PaperScheduler,
        PerFramePruning,
        Scheduler,
    )
    from stmg.streaming.settings import Settings
    from stmg.training.adapt import adapt
    from stmg.training.trainer import train
    from stmg.video.frames import Frame
    from stmg.video.normalization import Normalization
    from stmg.video.sources import open_video

__version__ = "0.1.0"

__all__ = [
    "AcceleratedNetwork",
    "AlwaysKey",
    "Card",
    "DataError",
    "DriftBudget",
    "FixedPeriod",
    "Foreground",
    "Frame",
    "FrameError",
    "FrameResult",
    "FrameState",
    "Goal",
    "Level",
    "Masking",
    "Masks",
    "MissingPackageError",
    "ModelError",
    "ModelSpec",
    "MotionEstimator",
    "Normalization",
    "Output",
    "PaperScheduler",
    "PerFramePruning",
    "Runtime",
    "Scheduler",
    "Settings",
    "SettingsError",
    "Sink",
    "SourceLostError",
    "StmgError",
    "StmgWarning",
    "TorchRuntime",
    "TrainingError",
    "VideoError",
    "VideoSegmenter",
    "accelerate",
    "adapt",
    "batch",
    "evaluate",
    "export",
    "load",
    "open_video",
    "resolve",
    "save",
    "train",
    "tune",
]

# Names are imported when they are used: what runs without PyTorch must not need it installed, and `import stmg` is
# instant. A new name goes here, above and in `__all__`; a test holds the three together.
_MODULES = {
    "stmg.models.card": ("Card",),
    "stmg.models.export": ("export",),
    "stmg.models.load": ("load", "resolve"),
    "stmg.models.spec": ("ModelSpec",),
    "stmg.models.save": ("save",),
    "stmg.evaluation.evaluate": ("evaluate",),
    "stmg.evaluation.results": ("Goal",),
    "stmg.evaluation.tune": ("tune",),
    "stmg.gating.accelerate": ("AcceleratedNetwork", "accelerate"),
    "stmg.jobs.batch": ("batch",),
    "stmg.outputs.sinks": ("Sink",),
    "stmg.video.normalization": ("Normalization",),
    "stmg.runtimes.torch": ("TorchRuntime",),
    "stmg.segmenter": ("VideoSegmenter",),
    "stmg.streaming.logits": ("Foreground",),
    "stmg.streaming.masks": ("Masking", "Masks"),
    "stmg.streaming.motion": ("MotionEstimator",),
    "stmg.streaming.online": ("FrameState",),
    "stmg.streaming.runtime": ("Output", "Runtime"),
    "stmg.streaming.schedulers": (
        "AlwaysKey",
        "DriftBudget",
        "FixedPeriod",
        "Level",
        "PaperScheduler",
        "PerFramePruning",
        "Scheduler",
    ),
    "stmg.streaming.settings": ("Settings",),
    "stmg.streaming.result": ("FrameResult",),
    "stmg.training.adapt": ("adapt",),
    "stmg.training.trainer": ("train",),
    "stmg.video.frames": ("Frame",),
    "stmg.video.sources": ("open_video",),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}
_EXTRAS = {
    "evaluate": "evaluate",
    "export": "export",
    "train": "train",
    "tune": "evaluate",
}  # torch for everything else


def _open_store() -> Store:
    from stmg.models import ModelStore

    return ModelStore()


provide_store(_open_store)


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'stmg' has no attribute {name!r}")
    try:
        return getattr(import_module(_MODULE_OF[name]), name)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("stmg"):
            raise
        package = "PyTorch" if error.name == "torch" else error.name
        extra = _EXTRAS.get(name, "torch")
        raise MissingPackageError(f"stmg.{name} needs {package}: {install_command(extra)}") from error


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
