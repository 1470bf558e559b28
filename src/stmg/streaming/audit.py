"""Audits: a computed frame against what would have been shown without it, and the budget steered by them.

An anchor holds the network's own labels, so the difference measures, without ground truth, how far a stream is from the
network on this video, now. It is an upper bound: an anchor is computed where carried labels have become least certain.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import cv2

from stmg.streaming.schedulers import Scheduler, require_drift_budget
from stmg.video.labels import Labels

AUDIT_PERIOD = 4
"""Anchors per audit, where an audit costs extra and steers nothing."""
MAX_FACTOR = 8.0  # the budget stays within this factor of the scheduler's own
MAX_STEP = 1.25  # the most that one audit changes it by
STEP_POWER = 0.5  # of wanted / measured change, by which it changes
# Change of frames between two anchors, relative to that of an anchor blended from those beside it: 0.70, 0.68 and 0.59
# on CamVid's drive with one frame in 5, 7 and 10 computed, 0.66, 0.60 and 0.55 on rendered streets. Not half: a network
# flickers at any distance.
CHANGE_AT_HALF_DISTANCE = 0.69


class Audit(NamedTuple):
    """Difference between a computed frame and what would have been shown without computing it."""

    changed: float
    """Share of the pixels, 0 to 1, with another label."""
    classes: Mapping[int, float]
    """Share of the pixels of each class that would have been shown as another class."""
    distance: int
    """Frames to the computed frame that would have been shown instead."""
    flicker: float | None = None
    """Share of the pixels that the network itself changes between neighbors, one warped onto the other, as last
    measured in this scene; None if not measured. No schedule can change less."""

    def bring_nearer(self) -> Audit:
        """Estimate the change at half the distance.

        Without the anchor, those beside it are twice as far away as from any frame that is really shown.
        """
        classes = {number: CHANGE_AT_HALF_DISTANCE * share for number, share in self.classes.items()}
        changed = CHANGE_AT_HALF_DISTANCE * self.changed
        return self._replace(changed=changed, classes=classes, distance=-(-self.distance // 2))


def compare(shown: Labels, computed: Labels, distance: int, flicker: float | None = None) -> Audit:
    """Audit a computed frame.

    shown: the labels there were for it, from so many frames away.
    """
    differs = cv2.compare(shown, computed, cv2.CMP_NE)
    areas, wrong = (cv2.calcHist([computed], [0], mask, [256], [0, 256]).ravel() for mask in (None, differs))
    classes = {int(number): float(wrong[number] / areas[number]) for number in areas.nonzero()[0]}
    changed = float(wrong.sum() / max(1, computed.size))
    return Audit(changed, classes, distance, changed if distance == 1 else flicker)


class Steering(NamedTuple):
    """Effect of the audits so far on the budget of a stream."""

    factor: float = 1.0
    """Multiplies the scheduler's own budget."""
    flicker: float | None = None
    """Flicker from the last audit of this scene that measured it; None before."""
    unaudited: int = 0
    """Computed frames since the last audit."""

    def add_flicker(self, audit: Audit | None) -> Audit | None:
        """Fill in the flicker last measured, if the audit did not measure it."""
        return audit if audit is None or audit.flicker is not None else audit._replace(flicker=self.flicker)

    def follow(self, audit: Audit | None, max_change: float | None) -> Steering:
        """Update the steering after a computed frame: a step towards the budget that gives the wanted change."""
        if audit is None:
            return self._replace(unaudited=self.unaudited + 1)
        factor = self.factor if max_change is None else self.factor * _step(audit.changed, max_change)
        return Steering(min(max(factor, 1 / MAX_FACTOR), MAX_FACTOR), audit.flicker)

    def is_due(self, max_change: float | None) -> bool:
        """True if the next computed frame should be audited though that costs extra."""
        return self.unaudited + 1 >= (AUDIT_PERIOD if max_change is None else 1)

    def steer(self, scheduler: Scheduler, max_change: float | None) -> Scheduler:
        """Scale the scheduler's budget, if a change is wanted."""
        if max_change is None:
            return scheduler
        return require_drift_budget(scheduler).scale(self.factor)

    def restart(self) -> Steering:
        """Return the steering after a cut. It goes halfway back, in proportion, as the camera may still be the same."""
        return Steering(self.factor**0.5, None, self.unaudited)


UNSTEERED = Steering()


class SceneSteering:
    """Steering of the scene being read, for modes in which audits arrive later than their frames."""

    def __init__(self, max_change: float | None) -> None:
        self.max_change = max_change
        self.scene = 0
        """Number of scene breaks so far."""
        self._steering = Steering(unaudited=AUDIT_PERIOD)

    @property
    def is_due(self) -> bool:
        """True if the next anchor should be audited."""
        return self._steering.is_due(self.max_change)

    def restart(self) -> None:
        """Begin a new scene. Audits of the one before no longer count."""
        self.scene += 1
        self._steering = self._steering.restart()

    def steer(self, scheduler: Scheduler) -> Scheduler:
        """Scale the scheduler's budget by the factor from the audits."""
        return self._steering.steer(scheduler, self.max_change)

    def follow(self, audit: Audit | None, scene: int) -> Audit | None:
        """Take the audit of an anchor into account, if its scene is still read; None: the anchor was not audited.

        It is returned with the flicker last measured.
        """
        audit = self._steering.add_flicker(audit)
        if scene == self.scene:
            self._steering = self._steering.follow(audit, self.max_change)
        return audit


def _step(changed: float, max_change: float) -> float:
    """Compute the factor by which one audit changes the budget."""
    if changed <= 0:
        return MAX_STEP
    return float(min(max((max_change / changed) ** STEP_POWER, 1 / MAX_STEP), MAX_STEP))
