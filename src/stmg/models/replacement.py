"""Replacement: a complete export replaces an earlier one in its folder, an incomplete one never does."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from stmg.errors import ModelError
from stmg.models.correctors import FILES as CORRECTOR_FILES
from stmg.runtimes.manifest import MANIFEST, read_manifest

_PART = ".export-"  # prefix of the folders of unfinished exports


@contextmanager
def replace_export(folder: Path) -> Iterator[Path]:
    """Yield an empty folder to write an export to. Its files move to `folder` if the block ends without an error.

    An earlier export and its corrector are removed only then.
    """
    is_new = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    for left in folder.glob(f"{_PART}*"):  # folders left by exports that were killed
        shutil.rmtree(left, ignore_errors=True)
    try:
        with tempfile.TemporaryDirectory(prefix=_PART, dir=folder) as part:  # on the same disk
            yield Path(part)
            _move(Path(part), folder)
    finally:
        if is_new:
            with suppress(OSError):  # the folder is not empty after a successful export
                folder.rmdir()


def _move(part: Path, folder: Path) -> None:
    """Move the files. The manifest is removed first and moved last, because only it makes the folder an export."""
    graphs = _list_graph_files(folder)
    for file in (folder / MANIFEST, *graphs, *(folder / name for name in CORRECTOR_FILES)):
        file.unlink(missing_ok=True)
    for file in sorted(part.iterdir(), key=lambda file: file.name == MANIFEST):
        file.replace(folder / file.name)


def _list_graph_files(folder: Path) -> list[Path]:
    """Graph files of the export in a folder; empty if its manifest cannot be read."""
    try:
        graphs = [folder / graph.file for graph in read_manifest(folder).graphs.values()]
    except ModelError:
        return []
    return [*graphs, *(graph.with_suffix(".bin") for graph in graphs if graph.suffix == ".xml")]
