"""A background sink writes all results in order, even if the caller or one of its sinks fails."""

from __future__ import annotations

import threading
import time

import pytest

from results import result
from stmg.outputs.sinks import BackgroundSink, Sink, Sinks
from waiting import PATIENCE


class Listed(Sink):
    """Notes what it is given; waits for `gate` before each, fails at the index `bad`."""

    def __init__(self, bad=None, gate=None, bad_close=False):
        self.indices, self.threads, self.closed = [], set(), 0
        self._bad, self._gate, self._bad_close = bad, gate, bad_close

    def write(self, result):
        if self._gate is not None:
            assert self._gate.wait(PATIENCE)
        if self._bad is not None and result.index >= self._bad:
            raise OSError(28, f"no space for {result.index}")
        self.indices.append(result.index)
        self.threads.add(threading.current_thread())

    def close(self):
        self.closed += 1
        if self._bad_close:
            raise OSError(28, "no space to close")


@pytest.fixture(autouse=True)
def _no_thread_is_left():
    yield
    assert [thread for thread in threading.enumerate() if thread.name == "write"] == []


def test_results_are_written_in_order_by_another_thread_before_the_sink_is_closed():
    inner = Listed()
    with BackgroundSink(inner, capacity=3) as sink:
        for index in range(50):
            sink.write(result(index))
    assert inner.indices == list(range(50))
    assert threading.current_thread() not in inner.threads
    assert inner.closed == 1
    sink.close()
    assert inner.closed == 1


def test_the_caller_does_not_wait_for_the_sink_until_the_queue_is_full():
    gate = threading.Event()
    inner = Listed(gate=gate)
    sink = BackgroundSink(inner, capacity=3)
    for index in range(4):  # one is being written
        sink.write(result(index))
    fifth = threading.Thread(target=lambda: sink.write(result(4)))
    fifth.start()
    fifth.join(0.1)
    assert fifth.is_alive()
    assert inner.indices == []
    gate.set()
    fifth.join(PATIENCE)
    assert not fifth.is_alive()
    sink.close()
    assert inner.indices == [0, 1, 2, 3, 4]


def test_an_error_reaches_the_caller_at_the_next_result_and_healthy_sinks_lose_nothing():
    broken, healthy = Listed(bad=2), Listed()
    written = []

    def run():
        with BackgroundSink(Sinks(broken, healthy), capacity=4) as sink:
            for index in range(1000):
                written.append(index)
                sink.write(result(index))
                time.sleep(0.005)

    with pytest.raises(OSError, match="no space for 2"):
        run()
    assert len(written) < 20
    assert broken.indices == [0, 1]
    assert healthy.indices == written
    assert broken.closed == healthy.closed == 1


def test_an_error_of_the_last_result_is_raised_by_close_once():
    sink = BackgroundSink(Listed(bad=0))
    sink.write(result(0))
    with pytest.raises(OSError, match="no space for 0"):
        sink.close()
    sink.close()


def test_an_error_of_closing_is_raised_by_close():
    inner = Listed(bad_close=True)
    sink = BackgroundSink(inner)
    sink.write(result(0))
    with pytest.raises(OSError, match="no space to close"):
        sink.close()


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_what_was_computed_before_an_error_of_the_caller_is_written(error):
    gate = threading.Event()
    inner = Listed(gate=gate)

    def run():
        with BackgroundSink(inner) as sink:
            for index in range(8):
                sink.write(result(index))
            gate.set()
            raise error

    with pytest.raises(error):
        run()
    assert inner.indices == list(range(8))
    assert inner.closed == 1


def test_a_closed_sink_takes_nothing_more_and_one_without_results_starts_no_thread():
    inner = Listed()
    sink = BackgroundSink(inner)
    sink.close()
    assert inner.closed == 1
    with pytest.raises(ValueError, match="closed"):
        sink.write(result(0))
