"""Data of your own: images or videos and label PNGs, described by a `dataset.yaml`; and videos without labels."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from stmg.data.dataset import DataError, Dataset, Video
from stmg.data.files import FrameFiles, LabelCode
from stmg.data.video_file import VideoFile
from stmg.overlay import IGNORE, default_palette
from stmg.readers import IMAGE_ENDINGS, natural_order
from stmg.settings import built

DESCRIPTION = "dataset.yaml"
VIDEO_ENDINGS = (".mp4", ".mkv", ".avi", ".mov", ".webm", ".m4v", ".mpg", ".mpeg")


@dataclass(frozen=True)
class ClassEntry:
    """A class of `dataset.yaml`."""

    name: str
    colour: tuple[int, int, int] | None = None
    """RGB; one is chosen if there is none."""


@dataclass(frozen=True)
class VideoEntry:
    """A video of `dataset.yaml`."""

    frames: str
    """A folder of images in order, or a video file."""
    labels: str = ""
    """A folder of PNGs of class numbers: named as the images, or, for a video file, by the number of the frame."""
    rate: float | None = None
    """Frames a second, for a folder of images; leave it out for stills."""


@dataclass(frozen=True)
class Description:
    """What `dataset.yaml` holds."""

    classes: tuple[ClassEntry, ...]
    train: tuple[VideoEntry, ...] = ()
    val: tuple[VideoEntry, ...] = ()
    test: tuple[VideoEntry, ...] = ()
    name: str = ""
    ignore: int = IGNORE
    """The value of pixels without a class."""


def is_video(path: Path) -> bool:
    return path.is_file() and path.suffix.lower() in VIDEO_ENDINGS


def open_videos(path: Path) -> Dataset:
    """A video without labels, or a folder of them, all in the split `all`."""
    files = [path] if path.is_file() else sorted(entry for entry in path.iterdir() if is_video(entry))
    videos: tuple[Video, ...] = tuple(VideoFile(file) for file in files)
    return Dataset(path.name, (), np.zeros((0, 3), np.uint8), {"all": videos})


def open_folder(path: str | Path) -> Dataset:
    """The dataset that `dataset.yaml` in a folder describes."""
    path = Path(path)
    file = path if path.is_file() else path / DESCRIPTION
    described = _described(file)
    if len(described.classes) < 2:
        raise DataError(f"{file} names {len(described.classes)} classes; a dataset has at least 2")
    if not 0 <= described.ignore <= 255:
        raise DataError(f"{file}: ignore is a value of label files, 0 to 255; got {described.ignore}")
    code = LabelCode(len(described.classes), recode={described.ignore: IGNORE})
    chosen = default_palette(len(described.classes))
    palette = [entry.colour or tuple(chosen[number]) for number, entry in enumerate(described.classes)]
    splits = {
        split: tuple(_video(file.parent, entry, code) for entry in entries)
        for split, entries in (("train", described.train), ("val", described.val), ("test", described.test))
        if entries
    }
    if not splits:
        raise DataError(f"{file} names no videos; list them under train, val or test")
    names = tuple(entry.name for entry in described.classes)
    return Dataset(described.name or file.parent.resolve().name, names, np.array(palette, np.uint8), splits)


def _described(file: Path) -> Description:
    import yaml

    try:
        content: Any = yaml.safe_load(file.read_text())
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise DataError(f"{file} cannot be read: {' '.join(str(error).split())}") from None
    if not isinstance(content, dict) or "classes" not in content:
        raise DataError(f"{file} needs a list of classes")
    for key, kind in (("classes", "name"), ("train", "frames"), ("val", "frames"), ("test", "frames")):
        # A bare word stands for an entry with nothing but that, and an entry for a list of one.
        listed = content.get(key) or []
        listed = listed if isinstance(listed, list) else [listed]
        content[key] = [{kind: item} if isinstance(item, str) else item for item in listed]
    try:
        return built(Description, content)
    except (ValueError, TypeError) as error:
        raise DataError(f"{file}: {error}") from None


def _video(root: Path, entry: VideoEntry, code: LabelCode) -> Video:
    frames = root / entry.frames
    labels = root / entry.labels if entry.labels else None
    if labels is not None and not labels.is_dir():
        raise DataError(f"{labels} is no folder of label files")
    if is_video(frames):
        return VideoFile(frames, _numbered(labels), code)
    if not frames.is_dir():
        raise DataError(f"{frames} is neither a folder of images nor a video")
    images = sorted((p for p in frames.iterdir() if p.suffix.lower() in IMAGE_ENDINGS), key=natural_order)
    if not images:
        raise DataError(f"{frames} holds no images")
    found = tuple(_label_of(image, labels) for image in images)
    if labels is not None and not any(found):
        raise DataError(f"no image in {frames} has a label file of its name in {labels}")
    name = entry.frames.strip("./").replace("/", "-") or root.name
    return FrameFiles(name, tuple(images), found, code, entry.rate)


def _label_of(image: Path, labels: Path | None) -> Path | None:
    path = None if labels is None else labels / f"{image.stem}.png"
    return path if path is not None and path.is_file() else None


def _numbered(labels: Path | None) -> dict[int, Path]:
    if labels is None:
        return {}
    found = {path: re.search(r"(\d+)$", path.stem) for path in sorted(labels.glob("*.png"))}
    wrong = next((path for path, match in found.items() if match is None), None)
    if wrong is not None or not found:
        raise DataError(f"{wrong or labels} has no frame number: label files of a video are named like 000042.png")
    return {int(match[1]): path for path, match in found.items() if match is not None}
