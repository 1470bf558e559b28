"""Waiting for other threads and processes, however slow a busy machine is."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

PATIENCE = 200
"""Seconds until a wait has failed; only a failure takes all of it."""

Value = TypeVar("Value")


def wait_for(read: Callable[[], Value], condition: Callable[[Value], object] = bool) -> Value:
    """What is read, once something is true of it."""
    end = time.monotonic() + PATIENCE
    while not condition(value := read()):
        assert time.monotonic() < end, f"waited in vain; {value}"
        time.sleep(0.02)
    return value


class Held:
    """A place in the code of a process where it waits until it is released, however late the test interrupts it."""

    def __init__(self, folder: Path) -> None:
        self._reached, self._released = folder / "reached", folder / "released"

    @property
    def code(self) -> str:
        """Python that defines `hold`, which waits there."""
        return f"""
def hold():
    import pathlib, time
    pathlib.Path({str(self._reached)!r}).touch()
    while not pathlib.Path({str(self._released)!r}).exists():
        time.sleep(0.02)
"""

    def write_network(self, path: Path, call: int) -> str:
        """A network that is held at one of its calls, in a file; as it is named."""
        path.write_text(
            f"{self.code}\nimport itertools\ncalls = itertools.count(1)\n"
            f"def box():\n    def segment(image):\n        if next(calls) == {call}:\n            hold()\n"
            "        return image.argmax(2)\n    return segment\n"
        )
        return f"{path}:box"

    def wait(self, process: subprocess.Popen[str]) -> None:
        """Until a process has come there."""
        wait_for(lambda: self._reached.exists() or process.poll() is not None)
        assert process.poll() is None, process.communicate()

    def release(self) -> None:
        self._released.touch()
