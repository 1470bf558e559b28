"""Settings: each declared once, with its type, default, help, check and the modes that use it.

The options of the command line, settings files, cards, `stmg.load` and the reference page are made from these fields.
Nothing heavy is imported before a value is read: `stmg --help` needs the fields alone.
"""

# ruff: noqa: RUF009 - `setting` makes a field, as `dataclasses.field` does

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stmg.errors import SettingsError
from stmg.streaming import values
from stmg.streaming.schedulers import DriftBudget, Scheduler, limit_delay, require_drift_budget
from stmg.streaming.setting import MODEL as MODEL
from stmg.streaming.setting import STREAM as STREAM
from stmg.streaming.setting import Setting as Setting
from stmg.streaming.setting import setting
from stmg.streaming.values import MODES as MODES
from stmg.streaming.values import Mode as Mode
from stmg.streaming.values import check_mode as check_mode

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from stmg.streaming.correction import Corrector
    from stmg.streaming.masks import Masking
    from stmg.streaming.motion import MotionEstimator
    from stmg.video.normalization import Normalization

DEFAULT_SCHEDULERS: Mapping[Mode, Scheduler] = {
    "online": DriftBudget(),
    "offline": DriftBudget(key_above=0.6, longest=12),  # where these come from is in benchmarks/pages/parts.md
}
"""The schedulers of a model that has none of its own. Offline, a frame between two anchors looks at both, so they may
be further apart. Realtime has none: the network runs whenever something changed."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings for opening a model and segmenting a stream. Values may be text, such as "2%" or "360x480"."""

    mode: Mode | None = setting(
        None,
        "offline (looks at computed frames before and after), online (only before) or realtime (no frame waits for the "
        "network). Default: offline for files, realtime for live sources, online with partial frames.",
        values.choice(*MODES),
        common=True,
        live=True,
        offered=lambda: MODES,
    )
    size: tuple[int, int] | None = setting(
        None,
        "Size to compute frames at, such as 360x480; outputs have the size of the source. Default: as many pixels as "
        "the model is meant for, in the shape of the source, and never more than the source has.",
        values.read_size,
        metavar="HEIGHTxWIDTH",
        common=True,
    )
    max_change: float | None = setting(
        None,
        "Share of the pixels whose label may differ from the network's, such as 2%. How often the network runs (the "
        "drift budget) follows it, within a factor of 8. Default: the budget stays as it is.",
        values.read_share,
        metavar="SHARE",
        common=True,
        live=True,
        offered=lambda: (None, 0.005, 0.01, 0.02, 0.05, 0.1),
    )
    scheduler: Scheduler | None = setting(
        None,
        "When the network runs: drift, paper, fixed, per-frame or always-key; with settings: "
        "fixed:period=3,between=carry. One with partial frames is for online mode alone. Default: the model's own; "
        "drift if it has none.",
        values.read_scheduler,
        modes=("online", "offline"),
    )
    motion: MotionEstimator = setting(
        None,
        "Optical flow: dis, dis-medium, dis-fine or dis-finest (each finer and slower), auto (the one that pays for "
        "the network's operations) or none. Default: the model's own; auto if it has none.",
        values.read_motion,
        factory=lambda: values.read_motion("motion", "dis"),
        live=True,
        offered=values.list_motions,
    )
    fusion: float = setting(
        0.5,
        "Weight of the previous logits, warped, in a key frame: from 0 (off) to below 1. Default: the model's own; "
        "0.5 if it has none.",
        values.number("at least 0 and below 1", lambda value: 0 <= value < 1),
        metavar="WEIGHT",
        modes=("online",),
    )
    partial_scale: float = setting(
        1.0,
        "Scale at which partial frames are computed, above 0 and at most 1. Default: the model's own; 1 if it has "
        "none.",
        values.number("above 0 and at most 1", lambda value: 0 < value <= 1),
        metavar="SCALE",
        modes=("online",),
    )
    delay: int | None = setting(
        None,
        "Most frames that a result may lag behind its frame; a live source needs it. Default: no limit, for files.",
        values.read_delay,
        metavar="FRAMES",
        modes=("offline",),
    )
    device: str | None = setting(
        None,
        "cpu, cuda, cuda:1, mps; for graphs tensorrt, directml, coreml, gpu, npu, auto too. Default: a GPU if there is "
        "one; cpu for graphs.",
        values.read_text,
        group=MODEL,
        common=True,
        in_files=False,
    )
    threads: int | None = setting(
        None, "Number of CPU threads. Default: all cores.", values.read_threads, metavar="N", group=MODEL
    )
    runtime: str | None = setting(
        None,
        "torch, onnxruntime, openvino or litert. Default: what the model is saved for.",
        values.choice(*values.RUNTIMES),
        group=MODEL,
    )
    precision: str | None = setting(
        None, "fp32, bf16 or fp16. Default: fp32.", values.choice(*values.PRECISIONS), group=MODEL
    )
    compile: bool = setting(
        False, "Compile the network with torch.compile; the first frame takes a minute or so.", values.flag, group=MODEL
    )
    weights: Path | None = setting(
        None,
        "Weights (.pth or .safetensors) for a bare network such as ddrnet23-slim, or for file.py:function.",
        values.read_path,
        metavar="FILE",
        group=MODEL,
        in_files=False,
    )
    network: str | None = setting(
        None,
        "file.py:function that returns your own network, for a folder that stmg.save wrote of it.",
        values.read_text,
        metavar="FUNCTION",
        group=MODEL,
        in_files=False,
    )
    normalize: Normalization | None = setting(
        None,
        "Input range of a graph file or a network of your own: imagenet, none (0 to 1), half (-1 to 1), bytes (0 to "
        "255), or MEAN/STD per channel, such as 0.5,0.5,0.5/0.2,0.2,0.2. Default: imagenet.",
        values.read_normalization,
        group=MODEL,
    )
    output: str | int | None = setting(
        None,
        "Output to use, by name or number, where a graph file or a network of your own has several. Default: the one "
        "with the largest map of classes.",
        values.read_output,
        group=MODEL,
    )
    activation: str | None = setting(
        None,
        "What a network of one channel gives: logits or probability. Default: detected by a final sigmoid, or by the "
        "range of its values on a test image.",
        values.read_activation,
        group=MODEL,
    )
    threshold: float | None = setting(
        None,
        "Probability above which a pixel is foreground, for a network of one channel. Default: 0.5.",
        values.read_threshold,
        metavar="PROBABILITY",
        group=MODEL,
    )
    corrector: Corrector | None = setting(
        None,
        "Folder of a corrector that stmg adapt trained, or none to run without. Default: the one in the model's "
        "folder, if there is one.",
        values.read_corrector,
        metavar="DIR",
        group=MODEL,
        in_files=False,
    )
    untrained: bool = setting(
        False,
        "Allow a network without weights: its labels mean nothing, its speed does.",
        values.flag,
        group=MODEL,
        python_only=True,
    )
    masking: Masking = setting(
        None, "Ablations of the masks.", values.read_masking, factory=values.make_masking, python_only=True
    )
    palette: NDArray[np.uint8] = setting(
        None, "(C, 3) RGB colors of the classes.", values.read_palette, factory=values.make_palette, python_only=True
    )
    class_names: tuple[str, ...] = setting(
        (), "Names of the classes, in the order of their numbers.", values.read_class_names, python_only=True
    )
    model_size: tuple[int, int] | None = setting(
        None,
        "(H, W) that the network is meant for: larger frames are computed at as many pixels, in their own shape, "
        "unless `size` is given. None: it is not known, and frames are computed as they are.",
        values.read_size,
        python_only=True,
    )
    default_schedulers: Mapping[Mode, Scheduler] = field(default_factory=lambda: DEFAULT_SCHEDULERS)
    """The model's scheduler for online and for offline mode, used where no `scheduler` is given."""

    def __post_init__(self) -> None:
        for name, described in SETTINGS.items():
            value = getattr(self, name)
            if value is not None or described.default is not None:  # frozen, so values are converted here alone
                object.__setattr__(self, name, described.read(name, value))
        given = {
            mode: values.read_scheduler("default_schedulers", value) for mode, value in self.default_schedulers.items()
        }
        object.__setattr__(self, "default_schedulers", {**DEFAULT_SCHEDULERS, **given})
        if self.mode is not None:
            self.require_mode(self.mode)
        if self.max_change is not None:
            for mode in DEFAULT_SCHEDULERS:  # realtime steers the change at which another run is worth it
                if self.mode in (None, mode) and self.can_run(mode):
                    role = "scheduler" if self.scheduler is not None else f"{mode} scheduler"
                    require_drift_budget(self.scheduler_for(mode), role)
        elif self.can_run("offline"):
            self.scheduler_for("offline")

    def scheduler_for(self, mode: Mode) -> Scheduler:
        """The scheduler of online or offline mode: the one given, else the model's own for that mode."""
        self.require_mode(mode)
        if mode == "realtime":
            raise SettingsError("realtime has no scheduler: the network runs whenever something changed")
        scheduler = self.scheduler or self.default_schedulers[mode]
        if mode == "offline" and scheduler.refreshes:
            raise SettingsError(f"the scheduler {scheduler.name} computes partial frames, which offline mode does not")
        return limit_delay(scheduler, self.delay) if mode == "offline" and self.delay is not None else scheduler

    def require_mode(self, mode: Mode) -> None:
        """An error if a scheduler was given that a mode cannot honor."""
        if self.scheduler is None:
            return
        if mode == "realtime":
            raise SettingsError(
                f"scheduler {self.scheduler.name} cannot be used in realtime, where the network runs whenever "
                "something changed; give mode online or offline"
            )
        if mode == "offline" and self.scheduler.refreshes:
            raise SettingsError(
                f"scheduler {self.scheduler.name} computes partial frames, which only online mode does; offline takes "
                "drift, always-key or fixed:period=8,between=carry"
            )

    def check_arguments(self, names: Iterable[str], mode: Mode) -> None:
        """An error for the first of some settings, given by name, that a stream of this mode does not use."""
        names = tuple(names)
        self.require_mode(mode)
        check_modes(names, mode)
        if "partial_scale" in names and not self.scheduler_for("online").refreshes:
            name = self.scheduler_for("online").name
            raise SettingsError(f"partial_scale is for partial frames, and the scheduler {name} has none; use paper")

    def choose_mode(self, otherwise: Mode) -> Mode:
        """The mode that was given, else the one that the scheduler or the delay is for, else the one of the source."""
        if self.mode is not None:
            return self.mode
        if self.scheduler is not None and self.scheduler.refreshes:
            return "online"  # the one mode with partial frames
        return otherwise if self.delay is None else "offline"

    def can_run(self, mode: Mode) -> bool:
        """True if a mode honors the given scheduler, or if none was given."""
        try:
            self.require_mode(mode)
        except SettingsError:
            return False
        return True


def _describe() -> dict[str, Setting]:
    described = {}
    for item in fields(Settings):
        if "setting" in item.metadata:
            default = item.default if item.default is not MISSING else item.default_factory
            described[item.name] = replace(item.metadata["setting"], name=item.name, default=default)
    return described


SETTINGS: Mapping[str, Setting] = _describe()
"""Every setting by its name."""


def settings_for(*groups: str) -> dict[str, Setting]:
    """The settings of some groups, in their order, but for those given in Python alone."""
    return {name: each for name, each in SETTINGS.items() if each.group in groups and not each.python_only}


def check_modes(names: Iterable[str], mode: Mode) -> None:
    """An error for the first of some settings that a mode does not use.

    Why it refuses a scheduler depends on which it is, so `Settings.require_mode` says that.
    """
    for name in names:
        if name != "scheduler" and name in SETTINGS and mode not in SETTINGS[name].modes:
            raise SettingsError(f"{name} is for {' or '.join(SETTINGS[name].modes)} mode; the mode is {mode}")


def is_for_opening(name: str) -> bool:
    """True if a setting only takes effect when a model is opened, so that no stream can change it."""
    return name in SETTINGS and SETTINGS[name].group == MODEL


def live_settings() -> dict[str, Setting]:
    """The settings that may change while a stream runs: what a page can offer controls for."""
    return {name: each for name, each in SETTINGS.items() if each.live}


def make_settings(options: Mapping[str, Any], base: Settings | None = None) -> Settings:
    """Settings from options by name, the rest as in `base` or by default."""
    names = [item.name for item in fields(Settings)]
    for name in options:
        if name not in names:
            raise SettingsError(f"there is no setting {name!r}; there are {', '.join(names)}")
    return replace(base, **options) if base is not None else Settings(**options)
