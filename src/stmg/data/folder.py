"""Your own data: images or videos with label PNGs, described by a `dataset.yaml`; and videos without labels."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from stmg.data.dataset import Dataset, Video
from stmg.data.files import FrameFiles, LabelCode, VideoFile
from stmg.errors import DataError, SettingsError, require
from stmg.files import build_dataclass, path_inside, read_mapping
from stmg.video.addresses import IMAGE_SUFFIXES, VIDEO_SUFFIXES
from stmg.video.labels import IGNORE, MAX_DATASET_CLASSES
from stmg.video.overlay import default_palette
from stmg.video.readers import natural_order

DESCRIPTION = "dataset.yaml"


@dataclass(frozen=True)
class ClassEntry:
    """A class of `dataset.yaml`."""

    name: str
    color: tuple[int, int, int] | None = None
    """RGB. None: chosen automatically."""

    def __post_init__(self) -> None:
        valid = self.color is None or all(0 <= value <= 255 for value in self.color)
        require(valid, f"the color of {self.name} is three values from 0 to 255", self.color)


@dataclass(frozen=True)
class VideoEntry:
    """A video of `dataset.yaml`."""

    frames: str
    """A folder of ordered images, or a video file."""
    labels: str = ""
    """A folder of PNGs of class numbers, named like the images, or for a video file by the number of the frame."""
    rate: float | None = None
    """FPS of a folder of images. Leave it out for stills."""

    def __post_init__(self) -> None:
        require(self.rate is None or self.rate > 0, "rate is above 0", self.rate)


@dataclass(frozen=True)
class Description:
    """Content of `dataset.yaml`."""

    classes: tuple[ClassEntry, ...]
    train: tuple[VideoEntry, ...] = ()
    val: tuple[VideoEntry, ...] = ()
    test: tuple[VideoEntry, ...] = ()
    name: str = ""
    ignore: int = IGNORE
    """Value of pixels without a class."""


def is_video(path: Path) -> bool:
    """True for a video file. The suffix .ts is also used for text files, so their first byte is checked."""
    if not path.is_file() or path.suffix.lower() not in VIDEO_SUFFIXES:
        return False
    if path.suffix.lower() != ".ts":
        return True
    with path.open("rb") as file:
        return file.read(1) in (b"G", b"")  # the first byte of each packet of a transport stream


def open_videos(path: Path) -> Dataset:
    """Open a video without labels, or a folder of them, as the split `all`."""
    files = [path] if path.is_file() else sorted(entry for entry in path.iterdir() if is_video(entry))
    videos: tuple[Video, ...] = tuple(VideoFile(file) for file in files)
    return Dataset(path.name, (), np.zeros((0, 3), np.uint8), {"all": videos})


def open_images(path: Path) -> Dataset:
    """Open a folder of images without labels, as stills, in the split `all`."""
    images = _list_images(path)
    video = FrameFiles(path.name, images, (None,) * len(images), LabelCode(MAX_DATASET_CLASSES))
    return Dataset(path.name, (), np.zeros((0, 3), np.uint8), {"all": (video,)})


def open_folder(path: str | Path) -> Dataset:
    """Open the dataset that a folder's `dataset.yaml` describes."""
    path = Path(path)
    file = path if path.is_file() else path / DESCRIPTION
    description = _read_description(file)
    if not 2 <= len(description.classes) <= MAX_DATASET_CLASSES:
        raise DataError(f"{file} names {len(description.classes)} classes; a dataset has 2 to {MAX_DATASET_CLASSES}")
    if not 0 <= description.ignore <= 255:
        raise DataError(f"{file}: ignore is a value of label files, 0 to 255; got {description.ignore}")
    code = LabelCode(len(description.classes), recode={description.ignore: IGNORE})
    default = default_palette(len(description.classes))
    palette = [entry.color or tuple(default[class_id]) for class_id, entry in enumerate(description.classes)]
    splits = {
        split: tuple(_open_video(file, split, entry, code) for entry in entries)
        for split, entries in (("train", description.train), ("val", description.val), ("test", description.test))
        if entries
    }
    if not splits:
        raise DataError(f"{file} names no videos; list them under train, val or test")
    names = tuple(entry.name for entry in description.classes)
    return Dataset(description.name or file.parent.resolve().name, names, np.array(palette, np.uint8), splits)


def _read_description(file: Path) -> Description:
    content = read_mapping(file, DataError)
    if "classes" not in content:
        raise DataError(f"{file} needs a list of classes")
    for key, short in (("classes", "name"), ("train", "frames"), ("val", "frames"), ("test", "frames")):
        # A bare string stands for an entry with only that field, and a single entry for a list of one.
        entries = content.get(key) or []
        entries = entries if isinstance(entries, list) else [entries]
        content[key] = [{short: entry} if isinstance(entry, str) else entry for entry in entries]
    try:
        return build_dataclass(Description, content)
    except SettingsError as error:
        raise DataError(f"{file}: {error}") from None


def _open_video(file: Path, split: str, entry: VideoEntry, code: LabelCode) -> Video:
    root = file.parent
    try:
        frames = path_inside(root, entry.frames)
        labels = path_inside(root, entry.labels) if entry.labels else None
    except SettingsError as error:
        raise DataError(f"{file}: {split}: {error}") from None
    if labels is not None and not labels.is_dir():
        raise DataError(f"{labels} is not a folder of label files")
    if is_video(frames):
        return VideoFile(frames, _number_labels(labels), code)
    if not frames.is_dir():
        raise DataError(f"{frames} is neither a folder of images nor a video")
    images = _list_images(frames)
    label_files = tuple(_find_label(image, labels) for image in images)
    if labels is not None and not any(label_files):
        raise DataError(f"no image in {frames} has a label file of its name in {labels}")
    name = entry.frames.strip("./").replace("/", "-") or root.name
    return FrameFiles(name, images, label_files, code, entry.rate)


def _list_images(folder: Path) -> tuple[Path, ...]:
    images = sorted((p for p in folder.iterdir() if p.suffix.lower() in IMAGE_SUFFIXES), key=natural_order)
    if not images:
        raise DataError(f"{folder} holds no images")
    return tuple(images)


def _find_label(image: Path, labels: Path | None) -> Path | None:
    path = None if labels is None else labels / f"{image.stem}.png"
    return path if path is not None and path.is_file() else None


def _number_labels(labels: Path | None) -> dict[int, Path]:
    if labels is None:
        return {}
    matches = {path: re.search(r"(\d+)$", path.stem) for path in sorted(labels.glob("*.png"))}
    unnumbered = next((path for path, match in matches.items() if match is None), None)
    if unnumbered is not None or not matches:
        where = unnumbered or labels
        raise DataError(f"{where} has no frame number: label files of a video are named like 000042.png")
    return {int(match[1]): path for path, match in matches.items() if match is not None}
