"""A network that takes so many frame intervals: what is shown on each frame is known beforehand."""

import numpy as np
import pytest

from stmg.evaluation.delayed import DelayedExecutor, LastFinished
from stmg.runtimes.callable import CallableRuntime
from stmg.streaming.realtime import RealtimeStream
from stmg.streaming.settings import Settings
from zoo import colors, panning


def test_a_run_is_finished_so_many_intervals_after_it_started():
    executor = DelayedExecutor(2)
    run = executor.submit(lambda value: value + 1, 1)
    executor.tick()
    assert not run.done()
    executor.tick()
    assert run.done()
    assert run.result() == 2
    assert executor.submit(str, 5).result() == "5"  # what is waited for is finished at once
    assert executor.num_runs == 2


def test_an_error_is_raised_where_the_result_is_taken():
    executor = DelayedExecutor(1)
    run = executor.submit(int, "no number")
    executor.tick()
    with pytest.raises(ValueError, match="no number"):
        run.result()


@pytest.mark.parametrize("intervals", [1, 2, 4])
def test_copied_labels_are_as_old_as_those_of_a_realtime_stream_that_never_pauses(intervals):
    frames = panning(14, step=3)
    executor, last = DelayedExecutor(intervals), LastFinished(intervals)
    stream = RealtimeStream(CallableRuntime(colors), Settings(), executor, min_change=-1)
    for number, image in enumerate(frames):
        runs = executor.num_runs
        executor.tick()
        result = stream.step(image)
        shown = last.show(np.full((2, 2), number, np.uint8))
        assert (shown.age, shown.started) == (result.anchor_distance, executor.num_runs > runs)
        assert shown.labels[0, 0] == number - shown.age
