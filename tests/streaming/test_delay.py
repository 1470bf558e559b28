"""With a limited delay no result lags behind its frame by more frames than that."""

from __future__ import annotations

import numpy as np
import pytest

import stmg
from stmg.errors import SettingsError
from stmg.streaming.delay import limit_delay
from stmg.streaming.schedulers import AlwaysKey, DriftBudget, FixedPeriod, Level, PaperScheduler
from zoo import panning


def test_windows_get_shorter_and_never_longer():
    assert limit_delay(DriftBudget(0.6, longest=12), 8) == DriftBudget(0.6, longest=3)
    assert limit_delay(DriftBudget(0.6, longest=12), 1000) == DriftBudget(0.6, longest=12)
    assert limit_delay(FixedPeriod(8, Level.CARRY), 11) == FixedPeriod(4, Level.CARRY)
    assert limit_delay(AlwaysKey(), 2) == AlwaysKey()
    with pytest.raises(SettingsError, match="at least 2"):
        limit_delay(DriftBudget(), 1)
    with pytest.raises(SettingsError, match="got paper"):
        limit_delay(PaperScheduler(), 9)


@pytest.mark.parametrize("delay", [2, 5, 8, 14])
def test_no_result_lags_by_more(delay):
    read = 0

    def frames():
        nonlocal read
        for frame in panning(40):
            read += 1
            yield frame

    offline = limit_delay(FixedPeriod(30, Level.CARRY), delay)
    segmenter = stmg.VideoSegmenter(lambda image: image.transpose(2, 0, 1).astype(np.float32), scheduler=offline)
    lags = [read - 1 - result.index for result in segmenter.stream(frames(), mode="offline")]
    assert max(lags) <= delay
    assert max(lags) > delay - 3
