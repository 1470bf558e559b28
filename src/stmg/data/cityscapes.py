"""Cityscapes, 19 classes, in its own layout: snippets of 30 frames, of which the 20th is labeled, or only stills."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

import numpy as np

from stmg.data.dataset import Dataset, Video
from stmg.data.files import FrameFiles, LabelCode
from stmg.errors import DataError
from stmg.video.labels import IGNORE

RATE = 17.0  # FPS of the snippets
AFTER_LABEL = 10  # number of frames of a snippet after its labeled frame
SEQUENCES, STILLS, TRUTH = "leftImg8bit_sequence", "leftImg8bit", "gtFine"

# Name, value in the label files, color.
CLASSES = (
    ("road", 7, (128, 64, 128)),
    ("sidewalk", 8, (244, 35, 232)),
    ("building", 11, (70, 70, 70)),
    ("wall", 12, (102, 102, 156)),
    ("fence", 13, (190, 153, 153)),
    ("pole", 17, (153, 153, 153)),
    ("traffic light", 19, (250, 170, 30)),
    ("traffic sign", 20, (220, 220, 0)),
    ("vegetation", 21, (107, 142, 35)),
    ("terrain", 22, (152, 251, 152)),
    ("sky", 23, (70, 130, 180)),
    ("person", 24, (220, 20, 60)),
    ("rider", 25, (255, 0, 0)),
    ("car", 26, (0, 0, 142)),
    ("truck", 27, (0, 0, 70)),
    ("bus", 28, (0, 60, 100)),
    ("train", 31, (0, 80, 100)),
    ("motorcycle", 32, (0, 0, 230)),
    ("bicycle", 33, (119, 11, 32)),
)


def is_cityscapes(root: Path) -> bool:
    return (root / SEQUENCES).is_dir() or (root / STILLS).is_dir()


def open_cityscapes(root: str | Path) -> Dataset:
    """Open Cityscapes. Each snippet is a video. In splits without snippets, each labeled still is."""
    root = Path(root)
    if not is_cityscapes(root):
        raise DataError(f"{root} is not Cityscapes: it has neither {SEQUENCES}/ nor {STILLS}/")
    recode = dict.fromkeys(range(256), IGNORE) | {value: class_id for class_id, (_, value, _) in enumerate(CLASSES)}
    code = LabelCode(len(CLASSES), recode=recode)
    splits = {}
    for split in ("train", "val", "test"):
        images = next((root / name / split for name in (SEQUENCES, STILLS) if (root / name / split).is_dir()), None)
        if images is not None:
            splits[split] = _make_videos(images, root / TRUTH / split, code)
    if not splits:
        raise DataError(f"{root} has no train/, val/ or test/ in {SEQUENCES}/ or {STILLS}/")
    palette = np.array([color for _, _, color in CLASSES], np.uint8)
    return Dataset("Cityscapes", tuple(name for name, _, _ in CLASSES), palette, splits)


def _make_videos(images: Path, truth: Path, code: LabelCode) -> tuple[Video, ...]:
    recordings: dict[tuple[str, str], list[tuple[int, Path]]] = defaultdict(list)
    for path in images.glob("*/*_leftImg8bit.png"):
        match = re.fullmatch(r"(.+)_(\d{6})_(\d{6})_leftImg8bit", path.stem)
        if match is None:
            raise DataError(f"{path} is not a Cityscapes frame: names look like aachen_000000_000019_leftImg8bit.png")
        recordings[match[1], match[2]].append((int(match[3]), path))
    if not recordings:
        raise DataError(f"{images} holds no frames")
    videos = [
        _make_video(snippet, truth, code)
        for _, frames in sorted(recordings.items())
        for snippet in _cut_snippets(sorted(frames), truth)
    ]
    if truth.is_dir() and not any(video.labeled for video in videos):
        raise DataError(f"no frame in {images} has labels in {truth}")
    return tuple(videos)


def _cut_snippets(frames: list[tuple[int, Path]], truth: Path) -> list[list[Path]]:
    """Cut a recording into snippets: where frame numbers jump, and, because snippets may follow each other, ten frames
    after each labeled one."""
    snippets: list[list[Path]] = []
    last, end = None, None
    for number, path in frames:
        if last is None or number != last + 1 or (end is not None and number > end):
            snippets.append([])
            end = None
        snippets[-1].append(path)
        if _find_label(path, truth) is not None:
            end = number + AFTER_LABEL
        last = number
    return snippets


def _make_video(frames: list[Path], truth: Path, code: LabelCode) -> FrameFiles:
    labels = tuple(_find_label(path, truth) for path in frames)
    rate = RATE if len(frames) > 1 else None
    return FrameFiles(frames[0].stem.removesuffix("_leftImg8bit"), tuple(frames), labels, code, rate)


def _find_label(path: Path, truth: Path) -> Path | None:
    label = truth / path.parent.name / path.name.replace("_leftImg8bit.png", "_gtFine_labelIds.png")
    return label if label.is_file() else None
