"""Videos of a batch: find the files behind folders, patterns, lists and names, and give each a unique name."""

from __future__ import annotations

import hashlib
import posixpath
from collections import Counter
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

from fsspec.utils import get_protocol

from stmg.errors import SettingsError, VideoError
from stmg.files import path_inside, quote
from stmg.jobs.storage import full_name, open_storage
from stmg.video.addresses import IMAGE_SUFFIXES, VIDEO_SUFFIXES, hide_secrets, public_address, short_hash
from stmg.video.readers import natural_order

LIST_SUFFIX = ".txt"
READERS = 16  # files looked up at once, because each takes a while over the web
# Names of the version of a file in different storages.
_VERSIONS = ("etag", "ETag", "mtime", "LastModified", "Last-Modified", "updated", "created")


@dataclass(frozen=True)
class Video:
    """A video to segment."""

    source: str
    """Path, or URL for fsspec, of a file or a folder of images."""
    name: str
    """Folder of its outputs, relative to the output folder."""
    size: int
    """Size in bytes."""
    stamp: str
    """Version of the file: changes when the video does."""

    @property
    def address(self) -> str:
        """The source without secrets. It is written to files, and identifies the video."""
        return public_address(self.source)


def find_videos(arguments: Iterable[str | Path], without: str | None = None) -> list[Video]:
    """Find the videos that arguments name, each once, in natural order of their names.

    An argument is a video; a folder, for all videos below it, or for its images as the frames of one video; a pattern
    such as "drives/*.mp4", unless a file or folder has that very name; or a .txt file with one argument per line.
    Outputs are named by the path below the folder, or below the fixed part of the pattern. Outputs of single videos are
    named by the path below the folder that the videos share.

    without: the output folder, which is not searched. Raise if all videos, or a video named alone, are inside it.
    """
    videos: dict[str, Video] = {}
    singles: list[Video] = []
    for argument in _read_lists(map(str, arguments)):
        system, path = open_storage(argument)
        _refuse_host(system, argument)
        shown = hide_secrets(argument, argument)
        if any(letter in path for letter in "*?[") and not system.exists(path):
            files = system.glob(path, detail=True)
            files = {name: info for name, info in files.items() if info["type"] == "file"}
            if not files:
                raise VideoError(f"{shown} matches no file")
            found = _describe(system, files, _fixed_part(path))
        elif system.isdir(path):
            found = _search(system, shown, path)
        elif system.exists(path):
            singles += _describe(system, {path: system.info(path)}, posixpath.dirname(public_address(path)))
            continue
        else:
            raise VideoError(f"{shown} does not exist; give videos, folders, patterns or a list ending in .txt")
        _add(videos, found)
    singles = _rename(singles)
    _add(videos, singles)
    if without is not None:
        videos = _leave_out(videos, singles, without)
    return sorted(map(_check_name, _tell_apart(videos.values())), key=lambda video: natural_order(Path(video.name)))


def _add(videos: dict[str, Video], found: Iterable[Video]) -> None:
    """Add videos by their addresses. Raise if two videos have the same address."""
    for video in found:
        other = videos.setdefault(video.address, video)
        if other.source != video.source:
            raise VideoError(
                f"{video.address} is given twice with different queries, which are taken for signatures; give it once, "
                "or download both"
            )
        videos[video.address] = video


def keep_names(videos: list[Video], owners: Mapping[str, str]) -> list[Video]:
    """Give videos their names from earlier runs, so that new videos neither rename nor replace finished ones.

    owners: addresses by name. A new video whose name is taken also gets the hash of its address.
    """
    names = {address: name for name, address in owners.items()}
    kept = [replace(video, name=names.get(video.address) or video.name) for video in videos]
    return [
        _check_name(_add_hash(video) if owners.get(video.name, video.address) != video.address else video)
        for video in kept
    ]


def _leave_out(videos: Mapping[str, Video], singles: Iterable[Video], folder: str) -> dict[str, Video]:
    """Drop the videos inside the output folder. Raise if none is left, or if one of them was named alone."""
    below = f"{full_name(*open_storage(folder))}/"
    outside = {address: video for address, video in videos.items() if not video.source.startswith(below)}
    if videos and not outside:
        raise VideoError(f"all of these lie in the output folder {folder}; choose another --out")
    for video in singles:
        if video.address not in outside:
            raise VideoError(f"{video.address} lies in the output folder {folder}; choose another --out")
    return outside


def _refuse_host(system: Any, argument: str) -> None:
    """Raise for an address that names a machine, as ftp:// does: fsspec drops the machine from such paths."""
    if type(system)._get_kwargs_from_urls(argument).get("host"):
        raise SettingsError(
            f"videos are not read from {get_protocol(argument)}://; copy them here, or give a path, an object store "
            "such as s3://, or http://"
        )


def _read_lists(arguments: Iterable[str]) -> Iterable[str]:
    for argument in arguments:
        if not argument.endswith(LIST_SUFFIX):
            yield argument
            continue
        system, path = open_storage(argument)
        shown = hide_secrets(argument, argument)
        if not system.isfile(path):
            raise VideoError(f"{shown} does not exist; a list is a text file with one video a line")
        try:
            lines = system.cat_file(path).decode().splitlines()
        except UnicodeDecodeError:
            raise VideoError(f"{shown} is no text in UTF-8; a list is a text file with one video a line") from None
        folder = posixpath.dirname(full_name(system, path))
        named = [line for line in map(str.strip, lines) if line and not line.startswith("#")]
        if not named:
            raise VideoError(f"{shown} names no video; a list is a text file with one video a line")
        for line in named:
            is_whole = line.startswith("/") or get_protocol(line) != "file"
            yield line if is_whole else f"{folder}/{line}"


def _fixed_part(pattern: str) -> str:
    """The folder before the first wildcard of a pattern."""
    parts = pattern.split("/")
    first = next(at for at, part in enumerate(parts) if any(letter in part for letter in "*?["))
    return "/".join(parts[:first])


def _search(system: Any, shown: str, folder: str) -> list[Video]:
    files: dict[str, Any] = system.find(folder, detail=True)
    hidden = [name for name in files if any(part.startswith(".") for part in name[len(folder) :].split("/"))]
    files = {name: info for name, info in files.items() if name not in set(hidden)}
    found = {name: info for name, info in files.items() if name.lower().endswith(VIDEO_SUFFIXES)}
    if found:
        return _describe(system, found, folder)
    images = {name: info for name, info in files.items() if name.lower().endswith(IMAGE_SUFFIXES)}
    if not any(posixpath.dirname(name) == folder.rstrip("/") for name in images):
        endings = ", ".join(VIDEO_SUFFIXES)
        raise VideoError(f"{shown} holds no videos, whose names end in {endings}, and no images")
    images = _complete(system, images)
    stamps = hashlib.sha256("".join(_stamp(info) for info in images.values()).encode()).hexdigest()
    size = sum(info["size"] or 0 for info in images.values())
    return [Video(full_name(system, folder), PurePosixPath(folder).name, size, f"{len(images)}-{stamps[:16]}")]


def _describe(system: Any, files: Mapping[str, Mapping[str, Any]], root: str) -> list[Video]:
    """Videos, named by their paths below a root."""
    start = len(public_address(root))
    return [
        Video(full_name(system, path), public_address(path)[start:].strip("/"), info.get("size") or 0, _stamp(info))
        for path, info in _complete(system, files).items()
    ]


def _complete(system: Any, files: Mapping[str, Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Add sizes and times, which listings of the web lack."""

    def complete(path: str) -> Mapping[str, Any]:
        try:
            info: Mapping[str, Any] = system.info(path)
        except OSError:  # the worker reports the problem
            return files[path]
        return info

    missing = [path for path, info in files.items() if info.get("size") is None]
    with ThreadPoolExecutor(READERS) as readers:
        return {**files, **dict(zip(missing, readers.map(complete, missing), strict=True))}


def _check_name(video: Video) -> Video:
    """Return the video. Raise if its outputs would be outside the output folder."""
    try:
        path_inside(Path(), video.name)
    except SettingsError:
        raise VideoError(
            f"the outputs of {video.address} would go to {quote(video.name)}, which is not inside the output folder; "
            "give its path or URL without .."
        ) from None
    return video


def _stamp(info: Mapping[str, Any]) -> str:
    version = next((info[key] for key in _VERSIONS if info.get(key)), "")
    return f"{info.get('size')}-{version}"


def _rename(singles: list[Video]) -> list[Video]:
    """Name single videos by their paths below the folder that they share."""
    folders = {posixpath.dirname(video.address) for video in singles}
    if len(folders) < 2:
        return singles
    shared = posixpath.commonprefix([f"{folder}/" for folder in folders]).rpartition("/")[0]
    names = [video.address[len(shared) :].replace("://", "/").strip("/") for video in singles]
    return [replace(video, name=name) for video, name in zip(singles, names, strict=True)]


def _tell_apart(videos: Iterable[Video]) -> list[Video]:
    """Add the hash of the address to the names that several videos have."""
    videos = list(videos)
    counts = Counter(video.name for video in videos)
    return [video if counts[video.name] == 1 else _add_hash(video) for video in videos]


def _add_hash(video: Video) -> Video:
    return replace(video, name=f"{video.name}-{short_hash(video.address)}")
