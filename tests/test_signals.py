"""Signals that end a process act like Ctrl-C, unless the parent process had them ignored."""

import os
import signal
import subprocess
import sys

import pytest

from commands import alone
from stmg.signals import ENDING, ending_as_interrupt, ignore_ending
from waiting import PATIENCE


@alone
def test_each_of_them_interrupts_and_is_as_before_afterwards():
    before = [signal.getsignal(number) for number in ENDING]
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        with ending_as_interrupt() as received, pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)
        assert received == [number]
    assert [signal.getsignal(number) for number in ENDING] == before


@alone
def test_what_must_be_finished_is_and_what_is_ignored_stays_so():
    hangup = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    try:
        with ending_as_interrupt() as received:
            os.kill(os.getpid(), signal.SIGHUP)
            ignore_ending()
            for number in ENDING:
                os.kill(os.getpid(), number)
        assert received == []
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        assert signal.getsignal(signal.SIGTERM) is not signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, hangup)


FORKS = """
import os, signal, time
from stmg.signals import ending_as_interrupt

for number in (signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_DFL)  # the tests may run under nohup
    for _ in range(20):
        with ending_as_interrupt() as received:
            child = os.fork()
            if not child:
                time.sleep(200)
                os._exit(0)
            os.kill(child, number)
            assert os.waitpid(child, 0)[1] == number, "it was not ended by its signal"
        assert received == []
        assert not signal.pthread_sigmask(signal.SIG_BLOCK, ())
"""


def test_a_forked_process_is_ended_by_them_however_early_they_come():
    done = subprocess.run([sys.executable, "-c", FORKS], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
