"""Signals that end a process: SIGTERM and the loss of the terminal are handled like Ctrl-C."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import active_children
from types import FrameType

ENDING = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK") if hasattr(signal, name))

Handler = Callable[[int, FrameType | None], object] | int | signal.Handlers


@contextmanager
def handle_ending(handler: Handler) -> Iterator[None]:
    """Send the signals that end a process to `handler`, except those that the parent process set to be ignored.

    Only the main thread receives signals; in other threads this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in ENDING}
    # nohup ignores the loss of the terminal; shells make background jobs ignore Ctrl-C.
    handled = [number for number, previous in before.items() if previous not in (signal.SIG_IGN, None)]
    for number in handled:
        signal.signal(number, handler)
    try:
        yield
    finally:
        for number in handled:
            signal.signal(number, before[number])


@contextmanager
def ending_as_interrupt() -> Iterator[list[int]]:
    """Raise KeyboardInterrupt on these signals. Yield the list of received signals.

    A process forked meanwhile is ended silently by them, except by Ctrl-C, which a terminal sends to all processes.
    """
    received: list[int] = []

    def interrupt(number: int, frame: FrameType | None) -> None:
        note_ending(number)
        if number != signal.SIGINT:
            for child in active_children():
                assert child.pid is not None
                with suppress(OSError):
                    os.kill(child.pid, signal.SIGINT)
        raise KeyboardInterrupt

    _received.append(received)
    _interrupts.append(interrupt)
    try:
        with handle_ending(interrupt):
            yield received
    finally:
        _received.pop()
        _interrupts.pop()


def note_ending(number: int) -> None:
    """Report a signal that another handler received to `ending_as_interrupt`."""
    for received in _received:
        received.append(number)


_received: list[list[int]] = []
_interrupts: list[Handler] = []
_forking = threading.local()


def _before_fork() -> None:
    """Block the signals for a moment: Python loses those that reach a new process before it is set up."""
    _forking.mask = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING if _interrupts else ())


def _after_fork() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, _forking.mask)


def _after_fork_in_child() -> None:
    for number in ENDING:
        if number != signal.SIGINT and signal.getsignal(number) in _interrupts:
            signal.signal(number, signal.SIG_DFL)
    _after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork_in_child)


def ignore_ending() -> None:
    """Ignore these signals until the surrounding `handle_ending` or `ending_as_interrupt` ends, to finish safely."""
    if threading.current_thread() is threading.main_thread():
        for number in ENDING:
            signal.signal(number, signal.SIG_IGN)
