"""The cache of patterns: graphs compiled for patterns of open blocks, in memory and on disk."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import threading
import warnings
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from platformdirs import user_cache_path

from stmg.errors import ModelError, first_line
from stmg.files import write_atomically
from stmg.runtimes.engine import Engine, Run
from stmg.runtimes.machine import processor

PATTERNS = 8  # compiled patterns that are held, in memory and on disk
MAX_MISSED = 64  # patterns that are remembered as missing
MAX_BYTES = 2 << 30  # that what is compiled may take on disk; beyond, the exports that were used longest ago go
ORIGIN = "export.json"  # beside what was compiled: the export that it comes from

Pattern = tuple[bool, ...]
"""Which blocks are open."""


class PatternCache:
    """Compiled patterns of open blocks, the least recently used discarded; safe to share between threads.

    A thread compiles what is missing, and ends when nothing is; only the newest that is missing counts, and only if it
    was requested before: what comes once may never come again.
    """

    def __init__(
        self,
        num_blocks: int,
        capacity: int,
        compile: Callable[[Pattern], Run],
        discard: Callable[[Pattern], None],
    ) -> None:
        """`compile` makes the graph of a pattern; `discard` removes from disk what was compiled for one."""
        self._capacity, self._compile_pattern, self._discard = capacity, compile, discard
        self._all = (True,) * num_blocks
        self._compiled: OrderedDict[Pattern, Run] = OrderedDict({self._all: compile(self._all)})
        self._failures: dict[Pattern, str] = {}
        self._missed: OrderedDict[Pattern, None] = OrderedDict()
        self._requested: Pattern | None = None
        self._changed = threading.Condition()
        self._compiling = False

    def get(self, keep: Pattern) -> tuple[Run, Pattern]:
        """The compiled pattern, or the cheapest that opens at least the same blocks while it is being compiled."""
        with self._changed:
            if keep not in self._compiled and keep not in self._failures:
                if keep in self._missed:
                    self._request(keep)
                self._missed[keep] = None
                while len(self._missed) > MAX_MISSED:
                    self._missed.popitem(last=False)
            wider = [other for other in self._compiled if all(b or not a for a, b in zip(keep, other, strict=True))]
            best = min(wider, key=sum)
            self._compiled.move_to_end(best)
            return self._compiled[best], best

    def get_exact(self, keep: Pattern) -> Run:
        """The compiled pattern itself, waited for; an error if it cannot be compiled."""
        with self._changed:
            while keep not in self._compiled:
                if keep in self._failures:
                    raise ModelError(f"a pattern of blocks cannot be compiled: {self._failures[keep]}")
                self._request(keep)
                self._changed.wait()
            self._compiled.move_to_end(keep)
            return self._compiled[keep]

    def _request(self, keep: Pattern) -> None:
        self._requested = keep
        if not self._compiling:
            self._compiling = True
            # No daemon: a compiler that is killed half-way takes the process down with it.
            threading.Thread(target=self._compile, name="stmg-compile").start()

    def _compile(self) -> None:
        while True:
            with self._changed:
                keep, self._requested = self._requested, None
                if keep is None or keep in self._compiled:
                    self._compiling = False
                    self._changed.notify_all()
                    return
            run, reason = None, ""
            try:
                run = self._compile_pattern(keep)
            except Exception as error:  # whatever an engine raises: a wider pattern goes on standing in
                reason = first_line(error)
                warnings.warn(f"a pattern of blocks is not compiled, a wider one stands in: {reason}", stacklevel=1)
            with self._changed:
                self._missed.pop(keep, None)
                if run is None:
                    self._failures[keep] = reason
                else:
                    self._compiled[keep] = run
                    self._shrink()
                self._changed.notify_all()

    def _shrink(self) -> None:
        while len(self._compiled) > self._capacity:
            oldest = next(pattern for pattern in self._compiled if pattern != self._all)
            del self._compiled[oldest]
            self._discard(oldest)


def file_stamps(folder: Path) -> list[str]:
    """What changes when an export is written anew."""
    return [f"{path.name} {path.stat().st_size} {path.stat().st_mtime_ns}" for path in list_files(folder)]


def list_files(folder: Path) -> list[Path]:
    """Those of an export; what begins with a dot is of a version control, a file manager or the like."""
    return sorted(path for path in folder.glob("*.*") if path.is_file() and not path.name.startswith("."))


def disk_cache(folder: Path, engine: Engine, capacity: int, content: str) -> Path | None:
    """The folder of what is compiled from an export, between runs, tidied; None where there can be none.

    content: the `content_digest` of the export.
    """
    try:
        root = user_cache_path("stmg", appauthor=False) / "compiled"  # beside it are weights, which stay
        # A compiled graph is for one machine and one version, an export is not.
        machine = [engine.name, engine.version, engine.where, str(engine.threads), processor(), version("stmg")]
        own = root / hashlib.sha256("\n".join([*machine, content]).encode()).hexdigest()[:24]
        if own.is_dir():
            os.utime(own)
        files = sorted(own.glob(f"*{engine.suffix}"), key=lambda path: path.stat().st_mtime)
        for path in files[: max(0, len(files) - capacity)]:
            path.unlink(missing_ok=True)
        taken = 0
        for each in sorted(root.glob("*/"), key=lambda path: path.stat().st_mtime, reverse=True):
            taken += sum(path.stat().st_size for path in each.glob("*"))
            if each != own and (taken > MAX_BYTES or _is_obsolete(each, folder, content)):
                shutil.rmtree(each, ignore_errors=True)
    except (OSError, RuntimeError, PackageNotFoundError):
        return None
    return own


def content_digest(folder: Path) -> str:
    """Of all files of an export: what was compiled from a damaged one shall not be met by the repaired one."""
    digest = hashlib.blake2b(digest_size=16)
    for path in list_files(folder):
        digest.update(path.name.encode())
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, hashlib.blake2b).digest())
    return digest.hexdigest()


def note_origin(cache: Path, folder: Path, content: str) -> None:
    """Note which export something was compiled from, so that it goes when that is gone or another."""
    with suppress(OSError):  # a full disk, mostly
        text = json.dumps({"folder": str(folder.resolve()), "content": content})
        if cache.is_dir() and not (cache / ORIGIN).is_file():
            write_atomically(cache / ORIGIN, text.encode())


def _is_obsolete(cache: Path, folder: Path, content: str) -> bool:
    """Whether the export that was compiled from is gone, or is the one in `folder` with another content."""
    try:
        origin = json.loads((cache / ORIGIN).read_text())
        where = Path(origin["folder"])
        return not where.is_dir() or (where == folder.resolve() and origin["content"] != content)
    except (OSError, ValueError, KeyError, TypeError):
        return False
