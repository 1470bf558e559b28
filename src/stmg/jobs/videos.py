"""Videos: the files that folders, patterns, lists and single names stand for, each with a name for its outputs."""

from __future__ import annotations

import hashlib
import posixpath
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

from fsspec.utils import get_protocol

from stmg.errors import SettingsError, VideoError
from stmg.files import path_inside, quote
from stmg.jobs.storage import full_name, open_storage
from stmg.video.readers import IMAGE_SUFFIXES, VIDEO_SUFFIXES, natural_order

LIST_SUFFIX = ".txt"
_CHANGES = ("etag", "ETag", "mtime", "LastModified", "updated", "created")  # by which storages tell versions apart


@dataclass(frozen=True)
class Video:
    """A video to segment."""

    source: str
    """Path, or URL for fsspec: of a file, or of a folder of images."""
    name: str
    """Of the folder of its outputs, within the output folder."""
    size: int
    """In bytes."""
    stamp: str
    """Changes when the video does."""


def find_videos(arguments: Iterable[str | Path], without: str | None = None) -> list[Video]:
    """The videos that arguments name, each once, in natural order of their names.

    An argument is a video; a folder, for all videos below it, or for its images as the frames of one video; a pattern
    such as "drives/*.mp4"; or a .txt file with one argument a line. Outputs are named by the path below the folder or
    below where the pattern begins; of single videos, below the folder that holds them all.

    without: a folder that is not searched, where the outputs go; an error if all of the videos lie there.
    """
    videos: dict[str, Video] = {}
    singles: list[Video] = []
    for argument in _read_lists(map(str, arguments)):
        system, path = open_storage(argument)
        if any(letter in path for letter in "*?["):
            files = system.glob(path, detail=True)
            files = {name: info for name, info in files.items() if info["type"] == "file"}
            if not files:
                raise VideoError(f"{argument} matches no file")
            found = _describe(system, files, _fixed_part(path))
        elif system.isdir(path):
            found = _search(system, argument, path)
        elif system.exists(path):
            singles += _describe(system, {path: system.info(path)}, posixpath.dirname(path))
            continue
        else:
            raise VideoError(f"{argument} does not exist; give videos, folders, patterns or a list ending in .txt")
        videos |= {video.source: video for video in found}
    videos |= {video.source: video for video in _rename(singles)}
    if without is not None:
        below = f"{full_name(*open_storage(without))}/"
        outside = {source: video for source, video in videos.items() if not source.startswith(below)}
        if videos and not outside:
            raise VideoError(f"all of these lie in the output folder {without}; choose another --out")
        videos = outside
    return sorted(map(_check_name, _tell_apart(videos.values())), key=lambda video: natural_order(Path(video.name)))


def keep_names(videos: list[Video], names: Mapping[str, str]) -> list[Video]:
    """Videos under the names they had before, so that others beside them do not rename what is done.

    names: by source. One that another video goes by now is not kept.
    """
    taken = {video.name for video in videos}
    return [
        _check_name(replace(video, name=name)) if (name := names.get(video.source)) and name not in taken else video
        for video in videos
    ]


def _read_lists(arguments: Iterable[str]) -> Iterable[str]:
    for argument in arguments:
        if not argument.endswith(LIST_SUFFIX):
            yield argument
            continue
        system, path = open_storage(argument)
        if not system.isfile(path):
            raise VideoError(f"{argument} does not exist; a list is a text file with one video a line")
        try:
            lines = system.cat_file(path).decode().splitlines()
        except UnicodeDecodeError:
            raise VideoError(f"{argument} is no text in UTF-8; a list is a text file with one video a line") from None
        folder = posixpath.dirname(full_name(system, path))
        for line in (line.strip() for line in lines):
            if line and not line.startswith("#"):
                is_whole = line.startswith("/") or get_protocol(line) != "file"
                yield line if is_whole else f"{folder}/{line}"


def _fixed_part(pattern: str) -> str:
    """The folder up to where a pattern begins."""
    parts = pattern.split("/")
    first = next(at for at, part in enumerate(parts) if any(letter in part for letter in "*?["))
    return "/".join(parts[:first])


def _search(system: Any, argument: str, folder: str) -> list[Video]:
    files: dict[str, Any] = system.find(folder, detail=True)
    hidden = [name for name in files if any(part.startswith(".") for part in name[len(folder) :].split("/"))]
    files = {name: info for name, info in files.items() if name not in set(hidden)}
    found = {name: info for name, info in files.items() if name.lower().endswith(VIDEO_SUFFIXES)}
    if found:
        return _describe(system, found, folder)
    images = {name: info for name, info in files.items() if name.lower().endswith(IMAGE_SUFFIXES)}
    if not any(posixpath.dirname(name) == folder.rstrip("/") for name in images):
        endings = ", ".join(VIDEO_SUFFIXES)
        raise VideoError(f"{argument} holds no videos, whose names end in {endings}, and no images")
    stamps = hashlib.sha256("".join(_stamp(info) for info in images.values()).encode()).hexdigest()
    size = sum(info["size"] or 0 for info in images.values())
    return [Video(full_name(system, folder), PurePosixPath(folder).name, size, f"{len(images)}-{stamps[:16]}")]


def _describe(system: Any, files: Mapping[str, Mapping[str, Any]], root: str) -> list[Video]:
    return [
        Video(full_name(system, path), path[len(root) :].strip("/"), info.get("size") or 0, _stamp(info))
        for path, info in files.items()
    ]


def _check_name(video: Video) -> Video:
    """The video itself; an error if its outputs would not be inside the output folder."""
    try:
        path_inside(Path(), video.name)
    except SettingsError:
        raise VideoError(
            f"the outputs of {video.source} would go to {quote(video.name)}, which is not inside the output folder; "
            "give its path or URL without .."
        ) from None
    return video


def _stamp(info: Mapping[str, Any]) -> str:
    version = next((info[key] for key in _CHANGES if info.get(key)), "")
    return f"{info.get('size')}-{version}"


def _rename(singles: list[Video]) -> list[Video]:
    """Single videos, named by their paths below the folder that holds them all."""
    folders = {posixpath.dirname(video.source) for video in singles}
    if len(folders) < 2:
        return singles
    shared = posixpath.commonprefix([f"{folder}/" for folder in folders]).rpartition("/")[0]
    names = [video.source[len(shared) :].replace("://", "/").strip("/") for video in singles]
    return [replace(video, name=name) for video, name in zip(singles, names, strict=True)]


def _tell_apart(videos: Iterable[Video]) -> list[Video]:
    """Videos of one name from several arguments get the hash of their source as well."""
    videos = list(videos)
    counts = Counter(video.name for video in videos)
    return [
        video
        if counts[video.name] == 1
        else replace(video, name=f"{video.name}-{hashlib.sha256(video.source.encode()).hexdigest()[:8]}")
        for video in videos
    ]
