"""Processes: interrupts wait for the end of a step, and errors of other processes are restored."""

import os
import signal
import traceback

import pytest

from commands import alone
from stmg.errors import DataError, SettingsError
from stmg.signals import ending_as_interrupt
from stmg.training.processes import Machines, defer_interrupt, restore_error


@alone
def test_the_first_interrupt_waits_and_the_second_does_not():
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        before = signal.getsignal(number)
        with ending_as_interrupt() as received, defer_interrupt() as interrupted:
            assert not interrupted.is_set()
            os.kill(os.getpid(), number)
            assert interrupted.wait(5)
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
        assert received == [number, signal.SIGINT]
        assert signal.getsignal(number) is before


@pytest.mark.parametrize("error", [DataError("a.png: cannot be read"), SettingsError("steps: 3")])
def test_an_error_of_another_process_is_restored_from_its_traceback(error):
    try:
        raise error
    except type(error):
        restored = restore_error(traceback.format_exc())
    assert type(restored) is type(error)
    assert str(restored) == str(error)


def test_an_error_of_our_own_is_not_taken_for_the_users():
    try:
        raise KeyError("x")
    except KeyError:
        restored = restore_error(traceback.format_exc())
    assert type(restored) is RuntimeError
    assert "KeyError" in str(restored)


@pytest.mark.parametrize("precision", ["4-bit", "32-true"])
def test_a_precision_has_the_name_that_it_has_everywhere(precision):
    with pytest.raises(SettingsError, match="there are fp32, bf16, fp16"):
        Machines(precision=precision)


def test_a_precision_reaches_fabric_in_its_own_words():
    for precision, own in (("fp32", "32-true"), ("bf16", "bf16-mixed")):
        fabric = Machines(device="cpu", precision=precision).make_fabric()
        assert fabric.strategy.precision.precision == own
