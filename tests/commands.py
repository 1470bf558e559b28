"""The command line as a user runs it."""

from __future__ import annotations

import functools
import inspect
import io
import os
import signal
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any
from unittest import mock

from stmg.cli import main

PLAIN = {"NO_COLOR": "1", "_TYPER_FORCE_DISABLE_TERMINAL": "1"}  # no colors, on machines that force them too


def run_stmg(*arguments: object, columns: int = 120) -> CompletedProcess[str]:
    """`stmg` with these arguments, to its end, in this process: PyTorch is imported once for all tests."""
    command = ["stmg", *map(str, arguments)]
    out, error = io.StringIO(), io.StringIO()
    environment = {**PLAIN, "COLUMNS": str(columns)}
    with (
        mock.patch.object(sys, "argv", command),
        mock.patch.dict(os.environ, environment),
        redirect_stdout(out),
        redirect_stderr(error),
    ):
        try:
            main()
            code = 0
        except SystemExit as left:
            code = left.code if isinstance(left.code, int) else 0
    return CompletedProcess(command, code, out.getvalue(), error.getvalue())


def spawn_stmg(*arguments: object, columns: int = 120, **options: Any) -> CompletedProcess[str]:
    """`stmg` with these arguments, to its end, in a process of its own."""
    command = [sys.executable, "-m", "stmg", *map(str, arguments)]
    environment = {**os.environ, **PLAIN, "COLUMNS": str(columns)}
    return subprocess.run(command, capture_output=True, text=True, timeout=200, env=environment, **options)


def start_stmg(*arguments: object, before: str = "") -> subprocess.Popen[str]:
    """`stmg` with these arguments, while it runs.

    before: Python that is run first in its process.
    """
    program = f"{before}\nfrom stmg.cli import main\nmain()"
    return subprocess.Popen(
        [sys.executable, *(("-c", program) if before else ("-m", "stmg")), *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=hear_signals,
    )


def hear_signals() -> None:
    """Hear Ctrl-C, which a shell's background jobs do not, and hangups, which what nohup starts does not."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def is_one_line(error: str) -> bool:
    """Whether standard error holds a message a user can read: one line, no traceback."""
    return len(error.strip().splitlines()) == 1 and "Traceback" not in error


def alone(test):
    """Run a test that signals its own process in one of its own, where nobody else's work is interrupted.

    Nor is there what other tests load: where oneDNN has switched on the matrix registers of the processor, a signal
    needs more room than the stack has that pytest's faulthandler sets up for it.
    """

    @functools.wraps(test)
    def run(*args, **kwargs):
        if "STMG_ALONE" in os.environ:
            test(*args, **kwargs)
            return
        path = Path(inspect.getfile(test))
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "COV"))}
        environment |= {"STMG_ALONE": "1", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # importing all of them takes seconds
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "--noconftest",
            "-p",
            "no:cacheprovider",
            "-p",
            "pytest_timeout",
            f"{path}::{test.__name__}",
        ]
        done = subprocess.run(
            command,
            cwd=Path(__file__).parents[1],
            env=environment,
            capture_output=True,
            text=True,
            preexec_fn=hear_signals,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    return run
