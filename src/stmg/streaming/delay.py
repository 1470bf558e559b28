"""Delay: how far the results of an offline stream may lag behind its frames."""

from __future__ import annotations

from dataclasses import replace

from stmg.errors import SettingsError
from stmg.streaming.schedulers import AlwaysKey, DriftBudget, FixedPeriod, Scheduler

WINDOWS = 2  # that offline computes while the next one is read


def limit_delay(scheduler: Scheduler, delay: int) -> Scheduler:
    """The scheduler with anchors so near each other that no result of an offline stream lags by more frames.

    A frame waits until its window is read, and `WINDOWS` more that are computed meanwhile.
    """
    longest = (delay + 1) // (WINDOWS + 1)
    if longest < 1:
        raise SettingsError(f"delay is at least {WINDOWS} frames; got {delay}")
    if isinstance(scheduler, DriftBudget):
        return replace(scheduler, longest=min(scheduler.longest, longest))
    if isinstance(scheduler, FixedPeriod):
        return replace(scheduler, period=min(scheduler.period, longest))
    if isinstance(scheduler, AlwaysKey):
        return scheduler
    raise SettingsError(f"delay needs a scheduler of a known longest window: drift or fixed; got {scheduler.name}")
