"""Whether a corrector helps: labels with and without it against the network's own, on what was held out."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from stmg.streaming.audit import compare
from stmg.streaming.correction import Corrector
from stmg.streaming.runtime import Runtime
from stmg.training.adapt.clips import ClipSource
from stmg.training.adapt.pairs import Watching, carry_case, find_cases

HELP = 0.98  # of the change that is left, above which a corrector is no help


class Change(NamedTuple):
    """Shares of the pixels on which labels differ from the network's."""

    uncorrected: float = 0.0
    """With motion alone."""
    corrected: float = 0.0

    @property
    def is_less(self) -> bool:
        return self.corrected < HELP * self.uncorrected


class Check(NamedTuple):
    """What a corrector does on what was held out."""

    clips: int
    carried: Change
    """From one computed frame, as online and realtime."""
    between: Change
    """From a computed frame on each side, as those that offline mode corrects."""

    @property
    def helps(self) -> bool:
        return self.carried.is_less


def check_corrector(
    corrector: Corrector, source: ClipSource, runtime: Runtime, clips: int, seed: int, on_clip: Callable[[int], None]
) -> Check:
    """Compare with motion alone on up to so many clips."""
    watching = Watching(corrector.num_classes)
    found: list[list[tuple[float, float]]] = [[], []]  # by the number of sides
    held_out = 0
    for number in range(clips):
        clip = source.get_held_out(number)
        if clip is None:
            continue
        held_out += 1
        rng = np.random.default_rng((seed, number, 4))
        for case in find_cases(clip, runtime, watching, rng):
            alone, corrected = (
                compare(carry_case(case, which), case.truth.labels, 1).changed for which in (None, corrector)
            )
            found[len(case.sides) - 1].append((alone, corrected))
        on_clip(number + 1)
    carried, between = (Change(*map(float, np.mean(each, axis=0))) if each else Change() for each in found)
    return Check(held_out, carried, between)
