"""CamVid, 11 classes, in the layout of SegNet or as its authors published it."""

from __future__ import annotations

import re
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from stmg.data.dataset import Dataset, Video
from stmg.data.files import FrameFiles, LabelCode
from stmg.errors import DataError
from stmg.video.labels import IGNORE

_CLASSES = {
    "Sky": (128, 128, 128),
    "Building": (128, 0, 0),
    "Pole": (192, 192, 128),
    "Road": (128, 64, 128),
    "Sidewalk": (0, 0, 192),
    "Tree": (128, 128, 0),
    "SignSymbol": (192, 128, 128),
    "Fence": (64, 64, 128),
    "Car": (64, 0, 128),
    "Pedestrian": (64, 64, 0),
    "Bicyclist": (0, 128, 192),
}
CLASS_NAMES: tuple[str, ...] = tuple(_CLASSES)
PALETTE: NDArray[np.uint8] = np.array(list(_CLASSES.values()), np.uint8)

ORIGINAL_FOLDERS = ("*StillsRaw*", "Label*")
SPLITS = ("train", "val", "test")
CAMERA_RATE = 30.0  # FPS of the camera, whose frames the frame numbers count
MAX_STEP = 60  # maximum distance of neighbors in one video, in camera frames; stills are about a second apart

# The 32 colors of the original labels, grouped into the usual 11 classes. Other colors are void.
ORIGINAL_COLORS = {
    "Sky": ((128, 128, 128),),
    "Building": ((128, 0, 0), (0, 128, 64), (64, 192, 0), (64, 0, 64), (192, 0, 128)),
    "Pole": ((192, 192, 128), (0, 0, 64)),
    "Road": ((128, 64, 128), (128, 0, 192), (192, 0, 64)),
    "Sidewalk": ((0, 0, 192), (64, 192, 128), (128, 128, 192)),
    "Tree": ((128, 128, 0), (192, 192, 0)),
    "SignSymbol": ((192, 128, 128), (128, 128, 64), (0, 64, 64)),
    "Fence": ((64, 64, 128),),
    "Car": ((64, 0, 128), (64, 128, 192), (192, 128, 192), (192, 64, 128), (128, 64, 64)),
    "Pedestrian": ((64, 64, 0), (192, 128, 64), (64, 0, 192), (64, 128, 64)),
    "Bicyclist": ((0, 128, 192), (192, 0, 192)),
}


def is_camvid(root: Path) -> bool:
    segnet = (root / "train").is_dir() and (root / "trainannot").is_dir()
    return segnet or all(_find_folder(root, pattern) is not None for pattern in ORIGINAL_FOLDERS)


def open_camvid(root: str | Path) -> Dataset:
    """Open CamVid in SegNet's layout (`train/`, `trainannot/`) or the original (`701_StillsRaw_full/` and so on)."""
    root = Path(root)
    if (root / "train").is_dir() and (root / "trainannot").is_dir():
        present = [split for split in SPLITS if (root / split).is_dir()]
        by_split = {split: _list_pairs(root / split, root / f"{split}annot", "") for split in present}
        # In SegNet's files 11 means no class.
        return _make_dataset(by_split, LabelCode(len(CLASS_NAMES), recode={11: IGNORE}))
    images, labels = (_find_folder(root, pattern) for pattern in ORIGINAL_FOLDERS)
    if images is None or labels is None:
        raise DataError(
            f"{root} is not CamVid: it has neither train/ and trainannot/ "
            "nor 701_StillsRaw_full/ and LabeledApproved_full/"
        )
    by_split = {split: [] for split in SPLITS}
    for image, label in _list_pairs(images, labels, "_L"):
        by_split[_choose_split(image.stem)].append((image, label))
    colors = {color: CLASS_NAMES.index(name) for name, listed in ORIGINAL_COLORS.items() for color in listed}
    return _make_dataset(by_split, LabelCode(len(CLASS_NAMES), colors=colors))


def _make_dataset(by_split: dict[str, list[tuple[Path, Path]]], code: LabelCode) -> Dataset:
    splits = {split: _make_videos(pairs, code) for split, pairs in by_split.items() if pairs}
    return Dataset("CamVid", CLASS_NAMES, PALETTE, splits)


def _list_pairs(images: Path, labels: Path, suffix: str) -> list[tuple[Path, Path]]:
    frames = sorted(path for path in images.iterdir() if path.suffix.lower() in (".png", ".jpg", ".jpeg"))
    if not frames:
        raise DataError(f"{images} holds no images")
    pairs = []
    for image in frames:
        label = labels / f"{image.stem}{suffix}.png"
        if not label.is_file():
            raise DataError(f"{image.name} has no labels: {label} does not exist")
        pairs.append((image, label))
    return pairs


def _make_videos(pairs: list[tuple[Path, Path]], code: LabelCode) -> tuple[Video, ...]:
    """Group pairs into videos by drive, cut where the camera's frame numbers jump."""
    drives: dict[str, list[tuple[int, Path, Path]]] = defaultdict(list)
    for image, label in pairs:
        name, number = _parse_name(image.stem)
        drives[name].append((number, image, label))
    videos = []
    for name, entries in drives.items():
        entries.sort()
        cuts = [index for index, (a, b) in enumerate(pairwise(entries), 1) if b[0] - a[0] > MAX_STEP]
        for start, end in pairwise([0, *cuts, len(entries)]):
            part = entries[start:end]
            steps = [b[0] - a[0] for a, b in pairwise(part)]
            rate = CAMERA_RATE / sorted(steps)[len(steps) // 2] if steps else None
            frames, labels = tuple(e[1] for e in part), tuple(e[2] for e in part)
            videos.append(FrameFiles(f"{name}_{part[0][0]}", frames, labels, code, rate))
    return tuple(videos)


def _choose_split(stem: str) -> str:
    """SegNet's split of the 701 stills: the 15 Hz part of one drive is val, the dusk drives are test."""
    name, number = _parse_name(stem)
    if name == "0016E5" and 7959 <= number <= 8159 and number % 2:
        return "val"
    return "test" if name == "Seq05VD" or (name == "0001TP" and number >= 8550) else "train"


def _parse_name(stem: str) -> tuple[str, int]:
    """Parse the drive and frame number from a file name."""
    match = re.fullmatch(r"([^_]+)_f?(\d+)", stem)
    if match is None:
        raise DataError(f"{stem} is not a CamVid frame: names look like 0016E5_07959")
    return match[1], int(match[2])


def _find_folder(root: Path, pattern: str) -> Path | None:
    return next((path for path in sorted(root.glob(pattern)) if path.is_dir()), None)
