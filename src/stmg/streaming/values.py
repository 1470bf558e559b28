"""Values of settings: checked and converted from text, each kind in one place.

What is heavy is imported where it is used: `stmg --help` reads this.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from stmg.errors import SettingsError
from stmg.streaming.schedulers import SCHEDULERS, Scheduler, make_scheduler, scheduler_from_fields

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from stmg.streaming.correction import Corrector
    from stmg.streaming.masks import Masking
    from stmg.streaming.motion import MotionEstimator
    from stmg.video.normalization import Normalization

Mode = Literal["offline", "online", "realtime"]
MODES: tuple[Mode, ...] = get_args(Mode)
RUNTIMES = ("torch", "onnxruntime", "openvino", "litert")
PRECISIONS = ("fp32", "bf16", "fp16")
ACTIVATIONS = ("logits", "probability")

Read = Callable[[str, Any], Any]
"""Takes the name of a setting and a value, and returns the value converted, or raises a `SettingsError`."""


def choice(*allowed: str) -> Read:
    """Read one of the allowed words."""

    def read(name: str, value: Any) -> str:
        for word in allowed:
            if isinstance(value, str) and value == word:
                return word
        raise SettingsError(f"{name} is one of {', '.join(allowed)}; got {value!r}")

    return read


def check_mode(mode: object) -> Mode:
    """The mode of a stream, if there is one of that name."""
    checked: Mode = choice(*MODES)("mode", mode)
    return checked


def number(what: str, fits: Callable[[float], bool]) -> Read:
    """Read a number within limits."""

    def read(name: str, value: Any) -> float:
        parsed = _as_number(value)
        if parsed is None or not fits(parsed):
            raise SettingsError(f"{name} is {what}; got {value!r}")
        return parsed

    return read


read_activation = choice(*ACTIVATIONS)
read_threshold = number("a probability between 0 and 1", lambda value: 0 < value < 1)


def _as_number(value: Any) -> float | int | None:
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    return value if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) else None


def read_share(name: str, value: Any) -> float:
    """Read a share of 1, such as 0.02 or 2%."""
    percent = isinstance(value, str) and value.endswith("%")
    parsed = _as_number(value[:-1] if percent else value)
    share = None if parsed is None else parsed / (100 if percent else 1)
    if share is None or not 0 < share < 1:
        raise SettingsError(f"{name} is a share between 0 and 1, such as 2% or 0.02; got {value!r}")
    return share


def read_size(name: str, value: Any) -> tuple[int, int]:
    """(height, width), such as (360, 480) or 360x480."""
    from stmg.video.frames import check_size

    if isinstance(value, str):
        parts = value.lower().split("x")
        if len(parts) != 2 or not all(part.isdecimal() and len(part) < 9 and int(part) > 0 for part in parts):
            raise SettingsError(f"{name} is HEIGHTxWIDTH, such as 360x480; got {value!r}")
        value = (int(parts[0]), int(parts[1]))
    return check_size(value, name)


def read_whole(name: str, value: Any, least: int, what: str) -> int:
    """Read a whole number, at least `least`."""
    parsed = _as_number(value)
    if parsed is None or parsed != int(parsed) or parsed < least:
        raise SettingsError(f"{name} is {what}; got {value!r}")
    return int(parsed)


def read_delay(name: str, value: Any) -> int:
    return read_whole(name, value, 2, "at least 2 frames")


def read_threads(name: str, value: Any) -> int:
    """A number of threads with which a machine does more than switch between them."""
    cores = os.cpu_count() or 1
    most = max(64, 4 * cores)
    what = f"from 1 to {most} on this machine, which has {cores} cores"
    threads = read_whole(name, value, 1, what)
    if threads > most:
        raise SettingsError(f"{name} is {what}; got {value!r}")
    return threads


def flag(name: str, value: Any) -> bool:
    """True or false."""
    words = {"true": True, "false": False}
    if isinstance(value, str) and value.lower() in words:
        return words[value.lower()]
    if not isinstance(value, bool):
        raise SettingsError(f"{name} is true or false; got {value!r}")
    return value


def read_text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise SettingsError(f"{name} is text; got {value!r}")
    return value


def read_path(name: str, value: Any) -> Path:
    if not isinstance(value, str | Path):
        raise SettingsError(f"{name} is a file; got {value!r}")
    return Path(value)


def read_output(name: str, value: Any) -> str | int:
    """Read the name of an output, or its number."""
    if isinstance(value, str):
        return value
    return read_whole(name, value, 0, "the name or the number of an output")


def read_scheduler(name: str, value: Any) -> Scheduler:
    """A scheduler, its name, its name and settings as `fixed:period=3,between=carry`, or a mapping of both."""
    if isinstance(value, str):
        return parse_scheduler(value)
    if isinstance(value, Mapping):
        if "name" not in value:
            raise SettingsError(f"{name} has a name and its settings; got {dict(value)!r}")
        return scheduler_from_fields(value)
    if not isinstance(value, Scheduler):
        raise SettingsError(f"{name} is one of {', '.join(SCHEDULERS)} or a Scheduler; got {value!r}")
    return value


def parse_scheduler(text: str) -> Scheduler:
    """A scheduler from its name, or from name and settings: `fixed:period=3,between=carry`."""
    name, _, rest = text.partition(":")
    options: dict[str, float | int | str] = {}
    for item in filter(None, rest.split(",")):
        key, _, value = item.partition("=")
        options[key] = value if key == "between" else _parse_number(key, value, text)  # between is a level's name
    return make_scheduler(name, **options)


def _parse_number(key: str, value: str, text: str) -> int | float:
    for convert in (int, float):
        try:
            return convert(value)
        except ValueError:
            continue
    raise SettingsError(f"scheduler {text}: {key or 'a setting'} takes a number, as in {key or 'period'}=3")


def read_motion(name: str, value: Any) -> MotionEstimator:
    """Read a motion estimator, or its name."""
    from stmg.streaming.motion import MOTION_ESTIMATORS, MotionEstimator, make_motion_estimator

    if isinstance(value, str):
        return make_motion_estimator(value)
    if not isinstance(value, MotionEstimator):
        names = ", ".join(MOTION_ESTIMATORS)
        raise SettingsError(f"{name} is one of {names} or derives from stmg.MotionEstimator; got {value!r}")
    return value


def list_motions() -> tuple[str, ...]:
    """List the names of the motion estimators."""
    from stmg.streaming.motion import MOTION_ESTIMATORS

    return tuple(MOTION_ESTIMATORS)


def read_normalization(name: str, value: Any) -> Normalization:
    """Read a normalization, its name, or means and stds as MEAN/STD."""
    from stmg.video.normalization import Normalization, parse_normalization

    if isinstance(value, str):
        return parse_normalization(value)
    if not isinstance(value, Normalization):
        raise SettingsError(f"{name} is a Normalization, or its name, such as half; got {value!r}")
    return value


def read_corrector(name: str, value: Any) -> Corrector | str:
    """Read a corrector, its folder, or none."""
    if isinstance(value, str | Path):
        return str(value)
    if not hasattr(value, "correct"):
        raise SettingsError(f"{name} is a folder that stmg adapt wrote, or none; got {value!r}")
    corrector: Corrector = value
    return corrector


def read_masking(name: str, value: Any) -> Masking:
    from stmg.streaming.masks import Masking

    if not isinstance(value, Masking):
        raise SettingsError(f"{name} is a Masking, like Masking(pruning=0.5); got {value!r}")
    return value


def make_masking() -> Masking:
    """The masks as they are trained."""
    from stmg.streaming.masks import Masking

    return Masking()


def make_palette() -> NDArray[np.uint8]:
    """The colors of the classes of a model that has none of its own."""
    from stmg.video.labels import MAX_CLASSES
    from stmg.video.overlay import default_palette

    return default_palette(MAX_CLASSES)


def read_palette(name: str, value: Any) -> NDArray[np.uint8]:
    """(C, 3) RGB colors."""
    import numpy as np

    palette = np.asarray(value)
    if palette.ndim != 2 or palette.shape[1] != 3 or len(palette) > 256:
        raise SettingsError(f"{name} is (C, 3), one RGB color per class; got the shape {palette.shape}")
    if ((palette < 0) | (palette > 255)).any():
        raise SettingsError(f"{name} holds values from 0 to 255; got {palette.min()} to {palette.max()}")
    return palette.astype(np.uint8)


def read_class_names(name: str, value: Any) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise SettingsError(f"{name} are names, in the order of the classes; got {value!r}")
    return tuple(value)
