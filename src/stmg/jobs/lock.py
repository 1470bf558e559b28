"""Lock: one run at a time writes to an output folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stmg.errors import SettingsError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

LOCK = ".lock"


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Within it the folder is this run's; if it is another's, that is a `SettingsError`.

    The system takes a lock back when its process ends, however it ends, so none is left behind. On Windows, and where
    the storage has no locks, nothing is locked.
    """
    if fcntl is None:
        yield
        return
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / LOCK
    while True:
        with path.open("a") as file:
            _lock(file.fileno(), folder)
            if not _is_file(path, file.fileno()):
                continue  # a run that has ended removed it after it was opened here
            try:
                yield
            finally:
                path.unlink(missing_ok=True)
            return


def _lock(descriptor: int, folder: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise SettingsError(
            f"another run is writing to {folder}; wait until it has ended, or choose another output folder"
        ) from None
    except OSError:
        return  # no locks there


def _is_file(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False
