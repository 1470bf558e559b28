"""Replacement: an export takes the place of an earlier one in its folder when it is whole, or not at all."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from stmg.checkpoints.correctors import FILES as CORRECTOR_FILES
from stmg.runtimes.manifest import MANIFEST


@contextmanager
def replace_export(folder: Path) -> Iterator[Path]:
    """An empty folder to write an export to, whose files are moved to `folder` when the block ends without an error.

    An earlier export and its corrector are removed only then.
    """
    is_new = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with tempfile.TemporaryDirectory(prefix=".export-", dir=folder) as part:  # on the same disk
            yield Path(part)
            _move(Path(part), folder)
    finally:
        if is_new:
            with suppress(OSError):  # unless something came of it
                folder.rmdir()


def _move(part: Path, folder: Path) -> None:
    """Move files; the manifest goes first and comes last: without it, it is no export."""
    for name in (MANIFEST, *CORRECTOR_FILES):
        (folder / name).unlink(missing_ok=True)
    for file in sorted(part.iterdir(), key=lambda file: file.name == MANIFEST):
        file.replace(folder / file.name)
