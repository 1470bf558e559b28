"""stmg in forked processes: PyTorch is imported once, and each run has limits on time and memory of its own."""

from __future__ import annotations

import importlib
import math
import multiprocessing
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import psutil

ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",  # a process with threads cannot be forked safely
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "CUDA_VISIBLE_DEVICES": "",
    "HF_HUB_OFFLINE": "1",  # a mutated name must not be looked up online
    "NO_COLOR": "1",
    "TERM": "dumb",
    "COLUMNS": "200",
    "_TYPER_FORCE_DISABLE_TERMINAL": "1",
}
# ONNX Runtime and OpenVINO start threads when they are imported, so each run imports them by itself.
PRELOADED = (
    "torch",
    "av",
    "cv2",
    "onnx",
    "matplotlib.figure",
    "safetensors.torch",
    "stmg.cli",
    "stmg.models.torch_models",
    "stmg.data.check",
    "stmg.evaluation.report",
    "stmg.outputs.timeline",
    "stmg.runtimes.exported",
    "stmg.training.trainer",
)
POLL = 0.02  # seconds
JOIN_SECONDS = 1.0  # for a killed process to end


def preload() -> None:
    """Import what runs need. Nothing that starts threads may have been imported before."""
    os.environ.update(ENVIRONMENT)
    for name in PRELOADED:
        importlib.import_module(name)
    number = psutil.Process().num_threads()
    assert number == 1, f"{number} threads: a forked process would wait forever for a thread that it does not have"


@dataclass(frozen=True)
class Limits:
    """Limits of one run."""

    seconds: float = 60.0
    memory: int = 2 << 30
    """Resident bytes, beyond those of the forking process."""


DEFAULT_LIMITS = Limits()


@dataclass(frozen=True)
class Ending:
    """Ending of a run."""

    code: int
    """The exit code; that of a signal is negative."""
    stopped: Literal["", "time", "memory"]
    """The limit that it exceeded."""
    out: str
    error: str
    seconds: float
    peak: int
    """Maximum resident bytes beyond those of the forking process, polled every few milliseconds."""

    @property
    def error_lines(self) -> list[str]:
        return [line for line in self.error.splitlines() if line.strip()]

    @property
    def has_traceback(self) -> bool:
        return "Traceback (most recent call last)" in self.error


class Run:
    """A call of `function` in a forked process that has started; its output goes to files in `log`."""

    def __init__(
        self,
        function: Callable[[], object],
        log: Path,
        limits: Limits = DEFAULT_LIMITS,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.limits, self._log = limits, log
        log.mkdir(parents=True, exist_ok=True)
        self._base = psutil.Process().memory_info().rss
        self._process = multiprocessing.get_context("fork").Process(
            target=_call, args=(function, log, self._base + limits.memory, environment or {})
        )
        self._begun, self._peak = time.monotonic(), 0
        self._stopped: Literal["", "time", "memory"] = ""
        self._process.start()
        assert self._process.pid is not None
        self.pid: int = self._process.pid

    def poll(self) -> Ending | None:
        """The ending; None while the process runs. Kill it when it exceeds a limit."""
        if self._process.is_alive():
            with suppress(psutil.Error):
                self._peak = max(self._peak, psutil.Process(self.pid).memory_info().rss - self._base)
            if self._peak > self.limits.memory:
                self._stopped = "memory"
            elif time.monotonic() - self._begun > self.limits.seconds:
                self._stopped = "time"
            else:
                return None
            self.kill()
        self._process.join()
        spent = time.monotonic() - self._begun
        assert self._process.exitcode is not None
        out, error = (read_text(self._log / name) for name in ("stdout.txt", "stderr.txt"))
        return Ending(self._process.exitcode, self._stopped, out, error, spent, self._peak)

    def wait(self, seconds: float = math.inf, until: Callable[[], bool] = lambda: False) -> Ending | None:
        """Wait until it ends, `seconds` have passed or `until` is true. Return the ending, if there is one."""
        end = time.monotonic() + seconds
        while (ending := self.poll()) is None and time.monotonic() < end and not until():
            time.sleep(POLL)
        return ending

    def finish(self) -> Ending:
        """Wait until it ends."""
        ending = self.wait()
        assert ending is not None
        return ending

    def kill(self) -> None:
        """Kill it and its children with SIGKILL."""
        if not self._process.is_alive():
            return
        for kill in (os.killpg, os.kill):  # the group is there only after the first moments of the process
            with suppress(ProcessLookupError, PermissionError):
                kill(self.pid, signal.SIGKILL)
        self._process.join(JOIN_SECONDS)


def start_stmg(
    arguments: Sequence[object],
    log: Path,
    limits: Limits = DEFAULT_LIMITS,
    *,
    before: Callable[[], object] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Run:
    """Start `stmg` with these arguments; `before` is called first in its process."""

    def run() -> None:
        from stmg.cli import main

        sys.argv = ["stmg", *map(str, arguments)]
        if before is not None:
            before()
        main()

    return Run(run, log, limits, environment)


def read_text(path: Path) -> str:
    return path.read_bytes().decode(errors="replace") if path.is_file() else ""


def _call(function: Callable[[], object], log: Path, memory: int, environment: Mapping[str, str]) -> None:
    os.setpgid(0, 0)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # A second limit, for memory that grows between two polls. Libraries reserve far more address space than they use.
    resource.setrlimit(resource.RLIMIT_AS, (2 * memory + (8 << 30),) * 2)
    os.environ.update(environment)
    for name, descriptor in (("stdout.txt", 1), ("stderr.txt", 2)):
        file = os.open(log / name, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o644)
        os.dup2(file, descriptor)
        os.close(file)
    function()
