"""A signal to end acts like Ctrl-C, and the exit code shows which signal it was."""

import signal

import pytest
import typer

from commands import alone
from stmg.cli.interruption import INTERRUPTED, interruptible


@alone
def test_the_exit_code_is_that_of_the_signal_whether_or_not_the_verb_handles_it(capsys):
    def end(number, handles):
        try:
            signal.raise_signal(number)
        except KeyboardInterrupt:
            if handles:
                raise typer.Exit(INTERRUPTED) from None
            raise

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        for handles in (False, True):
            with pytest.raises(typer.Exit) as left:
                interruptible(end)(number=number, handles=handles)
            assert left.value.exit_code == 128 + number
            assert ("interrupted" in capsys.readouterr().err) == (not handles)


def test_a_verb_that_ends_by_itself_keeps_its_exit_code():
    def end(code):
        raise typer.Exit(code)

    for code in (0, 1, 2):
        with pytest.raises(typer.Exit) as left:
            interruptible(end)(code=code)
        assert left.value.exit_code == code
    assert interruptible(lambda: None)() is None
