"""Audit: what an anchor says against what would have been shown without it, and a budget steered by that.

An anchor is the network's own answer, so the difference is a measurement, without labels, of what a stream shows on
this video, now. It bounds from above: an anchor is computed where the labels shown have become least certain.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import cv2

from stmg.streaming.schedulers import Scheduler, require_drift_budget
from stmg.video.labels import Labels

SELDOM = 4
"""Where an audit costs extra, one of so many anchors is audited; every one if the audit steers the budget."""
BOUND = 8.0  # the budget stays within this factor of the scheduler's own
STEP = 1.25  # the most that one audit changes it by
GAIN = 0.5  # the power of wish / measured by which it changes


# How frames between two anchors differ from the network's, relative to an anchor blended from those beside it: 0.70,
# 0.68 and 0.59 on CamVid's drive with one frame in 5, 7 and 10 computed, 0.66, 0.60 and 0.55 on rendered streets. Not
# half: a network flickers at any distance.
NEARER = 0.69


class Audit(NamedTuple):
    """What a computed frame says against what would have been shown there."""

    changed: float
    """Share of the pixels, 0 to 1, with another label."""
    classes: Mapping[int, float]
    """By class: of the pixels that the network gives it, the share that would have been shown as another."""
    distance: int
    """Frames from the computed frame that would have been shown."""
    flicker: float | None = None
    """The share by which the network disagrees with itself from one frame to the next, warped onto it, where the last
    two neighbors of this scene were both computed; None: not known. No schedule can change less than that."""

    def bring_nearer(self) -> Audit:
        """For labels blended from the anchors before and after an anchor, as if it did not exist.

        Such anchors are twice as far away as those of any frame shown; at half the distance, a share of `NEARER` of the
        change is left.
        """
        classes = {number: NEARER * share for number, share in self.classes.items()}
        return self._replace(changed=NEARER * self.changed, classes=classes, distance=-(-self.distance // 2))


def compare(shown: Labels, computed: Labels, distance: int, flicker: float | None = None) -> Audit:
    """The audit of a computed frame; `shown` is what there was for it, from so many frames away."""
    differs = cv2.compare(shown, computed, cv2.CMP_NE)
    areas, wrong = (cv2.calcHist([computed], [0], mask, [256], [0, 256]).ravel() for mask in (None, differs))
    classes = {int(number): float(wrong[number] / areas[number]) for number in areas.nonzero()[0]}
    changed = float(wrong.sum() / max(1, computed.size))
    return Audit(changed, classes, distance, changed if distance == 1 else flicker)


class Steering(NamedTuple):
    """What a stream knows of its budget."""

    factor: float = 1.0
    """Of the scheduler's own budget."""
    flicker: float | None = None
    """Of the last audit of this scene that knew it."""
    unaudited: int = 0
    """Computed frames since the last audit."""

    def follow(self, audit: Audit | None, max_change: float | None) -> Steering:
        """After a computed frame: the budget, a step nearer to where the audit shows the wanted change."""
        if audit is None:
            return self._replace(unaudited=self.unaudited + 1)
        factor = self.factor if max_change is None else self.factor * _step(audit.changed, max_change)
        return Steering(min(max(factor, 1 / BOUND), BOUND), audit.flicker)

    def is_due(self, max_change: float | None) -> bool:
        """Whether the next computed frame is to be audited, where that costs extra."""
        return self.unaudited + 1 >= (SELDOM if max_change is None else 1)

    def steer(self, scheduler: Scheduler, max_change: float | None) -> Scheduler:
        """The scheduler with the budget that audits have led to."""
        if max_change is None:
            return scheduler
        return require_drift_budget(scheduler).scale(self.factor)

    def restart(self) -> Steering:
        """After a cut: half way back, in proportion, as the scene is another one but the camera may be the same."""
        return Steering(self.factor**0.5, None, self.unaudited)


UNSTEERED = Steering()


def _step(changed: float, max_change: float) -> float:
    """The factor by which one audit changes the budget."""
    if changed <= 0:
        return STEP
    return float(min(max((max_change / changed) ** GAIN, 1 / STEP), STEP))
