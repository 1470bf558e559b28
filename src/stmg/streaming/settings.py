"""Settings of a stream: which frames get how much, and how the rest is carried; checked where they are built."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from stmg.errors import SettingsError
from stmg.streaming.correction import Corrector
from stmg.streaming.masks import Masking
from stmg.streaming.motion import MOTION_ESTIMATORS, DisMotion, MotionEstimator, make_motion_estimator
from stmg.streaming.schedulers import SCHEDULERS, DriftBudget, Scheduler, make_scheduler, require_drift_budget
from stmg.video.frames import check_size
from stmg.video.labels import MAX_CLASSES
from stmg.video.overlay import default_palette

Mode = Literal["offline", "online", "realtime"]
MODES: tuple[Mode, ...] = get_args(Mode)
OFFLINE = {"key_above": 0.6, "longest": 12}  # where these come from is in benchmarks/pages/parts.md


@dataclass(frozen=True, kw_only=True)
class StreamSettings:
    """How a stream is segmented. A scheduler and a motion estimator may be given by name."""

    mode: Mode | None = None
    """offline, online or realtime; None: as the source suggests."""
    working_size: tuple[int, int] | None = None
    """(H, W) that frames are resized to before all else, and labels back from; None: frames stay as they are."""
    own_size: tuple[int, int] | None = None
    """(H, W) that the network is meant for: a larger video, camera or URL is computed at as many pixels, in its own
    shape, unless `working_size` is given; None: it is not known. Frames that you hand in yourself stay as they are."""
    scheduler: Scheduler = field(default_factory=DriftBudget)
    """Which frames get how much online: drift, paper, fixed, per-frame, always-key, or a scheduler."""
    offline: Scheduler = field(default_factory=lambda: make_scheduler("drift", **OFFLINE))
    """Where anchors go in offline mode; a frame between two of them looks at both, so they may be further apart."""
    motion: MotionEstimator = field(default_factory=DisMotion)
    """How the previous state is warped onto the current frame: dis, dis-medium, dis-fine or dis-finest; auto, the one
    of them that fits the network's cost; none, or an estimator."""
    masking: Masking = field(default_factory=Masking)
    """Ablations of the masks."""
    partial_scale: float = 1.0
    """The scale at which partial frames are computed."""
    fusion: float = 0.5
    """Weight of the warped logits of the frame before in a key frame's, where nothing changed; 0 for none."""
    max_change: float | None = None
    """The share of the pixels, 0 to 1, by which labels shown may differ from the network's. Audits steer the drift
    budget towards it, within a factor of 8; None: the budget stays."""
    corrector: Corrector | None = None
    """Corrects carried frames where motion alone is wrong; what `stmg adapt` trains."""
    palette: NDArray[np.uint8] = field(default_factory=lambda: default_palette(MAX_CLASSES))
    """(C, 3) RGB colors of the classes."""
    class_names: tuple[str, ...] = ()
    """What the classes are called, in the order of their numbers."""

    def __post_init__(self) -> None:
        if self.mode is not None:
            check_mode(self.mode)
        for name in ("working_size", "own_size"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, check_size(getattr(self, name), name))
        # Frozen, so names become objects here and nowhere else.
        if isinstance(self.scheduler, str):
            object.__setattr__(self, "scheduler", make_scheduler(self.scheduler))
        if isinstance(self.offline, str):
            object.__setattr__(self, "offline", make_scheduler(self.offline))
        if isinstance(self.motion, str):
            object.__setattr__(self, "motion", make_motion_estimator(self.motion))
        if not hasattr(self.scheduler, "decide"):
            raise SettingsError(f"scheduler is one of {', '.join(SCHEDULERS)} or a Scheduler; got {self.scheduler!r}")
        if not hasattr(self.offline, "decide") or self.offline.refreshes:
            raise SettingsError(
                f"offline is a Scheduler that computes frames whole or carries them; got {self.offline!r}"
            )
        if not isinstance(self.motion, MotionEstimator):
            names = ", ".join(MOTION_ESTIMATORS)
            raise SettingsError(f"motion is one of {names} or derives from stmg.MotionEstimator; got {self.motion!r}")
        if not isinstance(self.masking, Masking):
            raise SettingsError(f"masking is a Masking, like Masking(pruning=0.5); got {self.masking!r}")
        if not (isinstance(self.partial_scale, int | float) and 0 < self.partial_scale <= 1):
            raise SettingsError(f"partial_scale is above 0 and at most 1; got {self.partial_scale!r}")
        if not (isinstance(self.fusion, int | float) and 0 <= self.fusion < 1):
            raise SettingsError(f"fusion is at least 0 and below 1; got {self.fusion!r}")
        self._check_max_change()
        palette = np.asarray(self.palette)
        if palette.ndim != 2 or palette.shape[1] != 3 or len(palette) > 256:
            raise SettingsError(f"palette is (C, 3), one RGB color per class; got the shape {palette.shape}")
        if ((palette < 0) | (palette > 255)).any():
            raise SettingsError(f"palette holds values from 0 to 255; got {palette.min()} to {palette.max()}")
        object.__setattr__(self, "palette", palette.astype(np.uint8))
        if isinstance(self.class_names, str) or not isinstance(self.class_names, Iterable):
            raise SettingsError(f"class_names are names, in the order of the classes; got {self.class_names!r}")
        object.__setattr__(self, "class_names", tuple(self.class_names))

    def _check_max_change(self) -> None:
        if self.max_change is None:
            return
        if not (isinstance(self.max_change, int | float) and 0 < self.max_change < 1):
            raise SettingsError(f"max_change is a share of the pixels between 0 and 1; got {self.max_change!r}")
        # Realtime has a budget of its own: the change at which another run is worth it.
        modes = (("online", "scheduler", self.scheduler), ("offline", "offline", self.offline))
        for mode, name, scheduler in modes:
            if self.mode in (None, mode):
                require_drift_budget(scheduler, name)


def check_mode(mode: object) -> Mode:
    """The mode of a stream, if there is one of that name."""
    for name in MODES:
        if mode == name:
            return name
    raise SettingsError(f"mode is one of {', '.join(MODES)}; got {mode!r}")


def make_settings(options: Mapping[str, Any], base: StreamSettings | None = None) -> StreamSettings:
    """Settings from options by name, the rest as in `base` or by default."""
    names = [item.name for item in fields(StreamSettings)]
    for name in options:
        if name not in names:
            raise SettingsError(f"there is no option {name!r}; there are {', '.join(names)}")
    return replace(base, **options) if base is not None else StreamSettings(**options)
