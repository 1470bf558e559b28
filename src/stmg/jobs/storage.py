"""Storage: folders and videos through fsspec. Local paths, object stores (s3://, gs://), and http:// for reading.

Use only calls of fsspec that take a name literally. Others, such as `rm`, read a [ in it as a pattern.
"""

from __future__ import annotations

import os
import posixpath
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import fsspec
from fsspec.implementations.local import LocalFileSystem

from stmg.errors import MissingPackageError, SettingsError
from stmg.files import path_inside, write_atomically
from stmg.outputs.images import MARKER
from stmg.video.addresses import check_web_address, public_address

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

LOCK = ".lock"
WORK = ".work"
"""Folder of unfinished outputs, in an output folder on this machine."""
REQUESTS = 16  # files removed or moved at once, because each takes a while on remote storage


def open_storage(url: str) -> tuple[Any, str]:
    """The file system of a path or URL, and the path there."""
    protocol = url.partition("://")[0]
    try:
        system, path = fsspec.core.url_to_fs(url)
    except ImportError as error:
        raise MissingPackageError(f"{protocol}:// needs another package: {error}") from error
    except ValueError as error:
        raise SettingsError(
            f"{url} cannot be reached: {error}; give a path or a URL such as s3://bucket/videos"
        ) from None
    check_web_address(path)
    return system, posixpath.normpath(path) if is_local(system) else str(path)


def is_local(system: Any) -> bool:
    return isinstance(system, LocalFileSystem)


def full_name(system: Any, path: str) -> str:
    """A path in the form that `open_storage` takes: with its protocol, unless it is local."""
    return path if is_local(system) else str(system.unstrip_protocol(path))


@contextmanager
def fetch(url: str) -> Iterator[Path]:
    """Yield a video, file or folder of images as a local path: the path itself, or a temporary copy."""
    system, path = open_storage(url)
    if is_local(system):
        yield Path(path)
        return
    with tempfile.TemporaryDirectory(prefix="stmg-") as folder:
        copy = Path(folder) / public_address(path).rstrip("/").rpartition("/")[2]
        if system.isdir(path):
            files: list[str] = system.find(path)
            system.get(files, [str(path_inside(copy, file.removeprefix(path).lstrip("/"))) for file in files])
        else:
            system.get_file(path, str(copy))
        yield copy


class Folder:
    """A folder to write to. Names are relative to it, with `/` between their parts."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.system, self.path = open_storage(url)
        self.is_local = is_local(self.system)

    def read(self, name: str) -> bytes | None:
        """The content of a file; None if it does not exist."""
        try:
            content: bytes = self.system.cat_file(self._at(name))
        except FileNotFoundError:
            return None
        return content

    def write(self, name: str, data: bytes) -> None:
        """Write a file completely or not at all."""
        if not self.is_local:
            self.system.pipe_file(self._at(name), data)
            return
        path = Path(self._at(name))
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, data)

    def append(self, name: str, data: bytes) -> None:
        """Append to a local file; object stores cannot append."""
        assert self.is_local
        with Path(self._at(name)).open("ab") as file:
            file.write(data)

    @contextmanager
    def work_folder(self) -> Iterator[Path]:
        """Yield an empty local folder to write to before `publish`. It is on the same disk as a local output folder."""
        parent = Path(self.path) / WORK if self.is_local else None
        if parent is not None:
            parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="stmg-", dir=parent, ignore_cleanup_errors=True) as folder:
            yield Path(folder)

    def publish(self, folder: Path, name: str) -> None:
        """Move the contents of a work folder here, replacing entries of the same names."""
        for entry in sorted(folder.iterdir()):
            remove = self.remove_images if entry.is_dir() else self.remove
            remove(f"{name}/{entry.name}")
            if self.is_local:
                target = Path(self._at(f"{name}/{entry.name}"))
                target.parent.mkdir(parents=True, exist_ok=True)
                entry.rename(target)
            else:
                files = sorted(file for file in (entry, *entry.rglob("*")) if file.is_file())  # the marker first
                targets = [self._at(f"{name}/{file.relative_to(folder).as_posix()}") for file in files]
                self.system.put(list(map(str, files)), targets)

    def fetch(self, name: str, folder: Path) -> Path:
        """A file of this folder as a local path: the path itself, or a copy in `folder`."""
        if self.is_local:
            return Path(self._at(name))
        copy = folder / name.replace("/", "-")
        self.system.get_file(self._at(name), str(copy))
        return copy

    def move_into(self, source: str, target: str) -> None:
        """Move the files of one folder into another."""
        if not self.system.isdir(self._at(source)):
            return
        self.system.makedirs(self._at(target), exist_ok=True)

        def move(path: str) -> None:
            moved = f"{self._at(target)}/{path.rpartition('/')[2]}"
            if self.is_local:
                Path(path).replace(moved)
            else:
                self.system.cp_file(path, moved)
                self.system.rm_file(path)

        _for_each(move, self.system.find(self._at(source)))

    def remove(self, name: str) -> None:
        """Remove a file or folder if it exists."""
        path = self._at(name)
        if self.is_local and Path(path).is_dir():
            shutil.rmtree(path)
        else:
            _for_each(self.system.rm_file, self.system.find(path))

    def check_images(self, name: str) -> None:
        """Raise if a folder has files that stmg did not write, which new images would replace."""
        path = self._at(name)
        if not self.system.exists(f"{path}/{MARKER}") and self.system.find(path):
            raise SettingsError(f"{path} holds files that stmg did not write; choose another output folder")

    def remove_images(self, name: str) -> None:
        """Remove a folder of images that stmg wrote, if it exists."""
        self.check_images(name)
        files = self.system.find(self._at(name))
        # Remove the marker last: without it, the next run would refuse the images left by an interruption.
        _for_each(self.system.rm_file, [path for path in files if not path.endswith(f"/{MARKER}")])
        self.remove(name)

    def _at(self, name: str) -> str:
        return f"{self.path}/{name}"


def _for_each(work: Callable[[str], object], paths: Iterable[str]) -> None:
    with ThreadPoolExecutor(REQUESTS) as requests:
        list(requests.map(work, paths))


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder. Raise `SettingsError` if another run holds it.

    The system releases the lock whenever the process ends. On Windows, and on storage without locks, nothing is
    locked.
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
                continue  # a run that just ended removed it after it was opened here
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
        return  # this storage has no locks


def _is_file(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False
