"""Describe in one line how a network is interpreted, and warn if its first outputs look wrong."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np

from stmg.errors import StmgWarning
from stmg.streaming.result import FrameResult
from stmg.streaming.runtime import Runtime
from stmg.video.labels import Labels

FRAMES_TO_JUDGE = 3
"""Computed frames that are looked at before anything is said of them all."""
MIN_SIDE = 32
"""Smaller frames are not judged: there is too little to see in them."""
MAX_DISORDER = 0.6
"""Share of what chance would give, by which neighboring cells may differ. The shipped networks have 0.15 to
0.25 on a drive they were not trained for; independent noise has 1."""
MAX_CHANGE = 0.75
"""Share of what chance would give, by which carried labels may differ from those computed on the same frame."""


def describe(runtime: Runtime, computed_at: str) -> str:
    """One line: what the network is called, how its output and its input are read, and at which size it runs."""
    parts = (_describe_output(runtime), runtime.input_text, computed_at)
    return f"{runtime.name}: {', '.join(filter(None, parts))}"


def _describe_output(runtime: Runtime) -> str:
    seen, number = runtime.first_output, runtime.num_classes
    if seen is None:
        return "classes known at the first frame" if number is None else f"{number} classes"
    *channels, height, width = seen.shape
    if not channels:
        return "labels" if number is None else f"{number} classes, labels"
    whole = runtime.input_size or seen.frame_size
    strides = {max(1, round(side / part)) for side, part in zip(whole, (height, width), strict=True)}
    exact = len(strides) == 1 and all(
        abs(side / max(strides) - part) <= 1 for side, part in zip(whole, (height, width), strict=True)
    )
    at = ("at full size" if strides == {1} else f"at 1/{max(strides)}") if exact else f"of {height}x{width}"
    if channels[0] > 1:
        return f"{channels[0]} classes, logits {at}"
    assumed = " (assumed)" if runtime.foreground.activation is None else ""
    return f"foreground above {runtime.threshold:g}, {runtime.activation or 'one channel'}{assumed} {at}"


class Doubts:
    """Checks the first computed frames of a segmenter and warns of implausible output, once per kind.

    name: function from a label to the name of its class, or its number.
    """

    def __init__(self, runtime: Runtime, name: Callable[[int], str]) -> None:
        self.warnings: list[str] = []
        self._runtime, self._name = runtime, name
        self._uniform: list[int | None] = []
        self._disorder: list[float] = []
        self._change: list[float] = []
        self._misfits: list[str | None] = []

    def look_at(self, result: FrameResult) -> None:
        """Add a result; carried frames and all after the first few cost nothing."""
        if not result.computed or min(result.labels.shape) < MIN_SIDE or len(self._change) >= FRAMES_TO_JUDGE:
            return
        if len(self._uniform) < FRAMES_TO_JUDGE:
            self._uniform.append(find_only_label(result.labels))
            self._misfits.append(self._runtime.check_input(result.image))
            self._disorder.append(measure_disorder(result.labels, self._stride(result.labels)))
            if len(self._uniform) == FRAMES_TO_JUDGE:
                self._warn(self._misfits[0] if len(set(self._misfits)) == 1 else None)
                self._warn(self._explain_uniform())
                self._warn(self._explain_disorder())
        if result.audit is not None:
            chance = _differ_by_chance(result.labels)
            self._change.append(result.audit.changed / chance if chance > 0.2 else 0.0)
            if len(self._change) == FRAMES_TO_JUDGE and min(self._change) > MAX_CHANGE and not self.warnings:
                self._warn(
                    "labels of computed frames have little to do with those before: the network numbers them anew in "
                    "each frame, as those for instances do, or its input is not what it was trained on"
                )

    def _stride(self, labels: Labels) -> int:
        seen = self._runtime.first_output
        return 1 if seen is None else max(1, round(labels.shape[0] / seen.shape[-2]))

    def _explain_uniform(self) -> str | None:
        label = self._uniform[0]
        if label is None or any(other != label for other in self._uniform):
            return None
        seen = self._runtime.first_output
        if seen is not None and len(seen.shape) == 3 and seen.shape[0] == 1:
            if label == 0:  # nothing in sight, as it may be
                return None
            return (
                f"everything is foreground in the first {FRAMES_TO_JUDGE} computed frames: a network whose one channel "
                "is no probability, of depth say, looks like that; or state activation and threshold"
            )
        return (
            f"every pixel of the first {FRAMES_TO_JUDGE} computed frames is of class {self._name(label)}: if there is "
            "more to see, the network's output or its input is not what was understood of it"
        )

    def _explain_disorder(self) -> str | None:
        if min(self._disorder) <= MAX_DISORDER:
            return None
        return (
            f"the labels of the first {FRAMES_TO_JUDGE} computed frames look like noise: untrained weights, "
            "an input normalized in another way than in training, or an output that is not what was understood of it"
        )

    def _warn(self, text: str | None) -> None:
        if text is not None:
            self.warnings.append(text)
            warnings.warn(text, StmgWarning, stacklevel=4)


def find_only_label(labels: Labels) -> int | None:
    """Find the label of all pixels; None if there are several."""
    first = int(labels[0, 0])
    return first if (labels == first).all() else None


def measure_disorder(labels: Labels, stride: int = 1) -> float:
    """Measure how often neighboring cells differ, relative to labels drawn at random in the same proportions.

    It is 0 for a single class, and for frames in which one class has nearly all pixels. Cells are a stride apart, since
    those in between are interpolated.
    """
    cells = labels[stride // 2 :: stride, stride // 2 :: stride]
    chance = _differ_by_chance(cells)
    if chance < 0.2 or min(cells.shape) < 8:
        return 0.0
    differ = np.mean(cells[:, 1:] != cells[:, :-1]) + np.mean(cells[1:] != cells[:-1])
    return float(differ / 2 / chance)


def _differ_by_chance(labels: Labels) -> float:
    """Compute the probability that two random pixels have different labels."""
    shares = np.bincount(labels.ravel(), minlength=2) / labels.size
    return float(1 - np.square(shares).sum())
