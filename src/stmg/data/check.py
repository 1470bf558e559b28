"""Check a dataset: read all of it, count frames and classes, and draw a contact sheet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import cv2
import numpy as np
from numpy.typing import NDArray

from stmg.data.clips import is_moving
from stmg.data.dataset import Dataset, Video
from stmg.errors import DataError
from stmg.video.frames import Image
from stmg.video.overlay import draw_labels

TILE = (180, 240)  # size of a frame in the contact sheet
TILES, COLUMNS = 12, 4
LEGEND_CELL = 160  # width for the color and the name of a class


@dataclass(frozen=True)
class SplitStatistics:
    """Contents of a split."""

    num_videos: int
    num_frames: int
    num_labeled: int
    rates: tuple[str, ...]
    """Frame rates, the most frequent first."""
    sizes: tuple[str, ...]
    """Frame sizes as HEIGHTxWIDTH, the most frequent first."""
    class_shares: tuple[float, ...] | None
    """Shares of the pixels that have a class; None if nothing is labeled."""
    ignored_share: float | None
    """Share of all labeled pixels that have no class."""


@dataclass(frozen=True)
class DatasetCheck:
    """Contents of a dataset, and its problems."""

    name: str
    class_names: tuple[str, ...]
    splits: dict[str, SplitStatistics]
    problems: tuple[str, ...]
    """One line for each unusable file."""


@dataclass
class _Counts:
    num_videos: int = 0
    num_frames: int = 0
    num_labeled: int = 0
    rates: Counter[str] = field(default_factory=Counter)
    sizes: Counter[str] = field(default_factory=Counter)
    pixels: NDArray[np.int64] = field(default_factory=lambda: np.zeros(256, np.int64))

    def statistics(self, num_classes: int) -> SplitStatistics:
        classified, total = int(self.pixels[:num_classes].sum()), int(self.pixels.sum())
        return SplitStatistics(
            self.num_videos,
            self.num_frames,
            self.num_labeled,
            rates=tuple(name for name, _ in self.rates.most_common()),
            sizes=tuple(name for name, _ in self.sizes.most_common()),
            class_shares=tuple((self.pixels[:num_classes] / classified).tolist()) if classified else None,
            ignored_share=1 - classified / total if total else None,
        )


def check_dataset(dataset: Dataset, report: Callable[[str, int, int], None] | None = None) -> DatasetCheck:
    """Read the first frame of each video and every labeled frame with its labels.

    `report` is called with a split, the number of its labeled frames read so far, and their number found so far.
    """
    problems: list[str] = []
    splits = {split: _check_split(dataset, split, problems, report) for split in dataset.splits}
    return DatasetCheck(dataset.name, dataset.class_names, splits, tuple(problems))


def _check_split(
    dataset: Dataset, split: str, problems: list[str], report: Callable[[str, int, int], None] | None
) -> SplitStatistics:
    counts = _Counts()
    read = total = 0
    for video in dataset.videos(split):
        try:
            counts.num_frames += len(video)
            counts.num_videos += 1
            counts.rates[_describe_rate(video)] += 1
            height, width = video.image(0).shape[:2]
            counts.sizes[f"{height}x{width}"] += 1
            labeled = video.labeled
        except DataError as error:
            problems.append(str(error))
            continue
        total += len(labeled)
        for index in labeled:
            read += 1
            if report is not None:
                report(split, read, total)
            try:
                video.image(index)
                truth = video.truth(index)
            except DataError as error:
                problems.append(str(error))
                continue
            assert truth is not None
            counts.num_labeled += 1
            counts.pixels += np.bincount(truth.ravel(), minlength=256)
    return counts.statistics(dataset.num_classes)


def _describe_rate(video: Video) -> str:
    if video.rate is None:
        return "stills"
    return f"{video.rate:.3g} Hz" if is_moving(video) else f"{video.rate:.2g} Hz, used as stills"


def contact_sheet(dataset: Dataset) -> Image | None:
    """Sample frames of the dataset, each above its labels, with a legend; None if no frame can be read."""
    tiles = []
    for video, index in _sample_frames(dataset):
        try:
            image, truth = video.image(index, TILE), video.truth(index, TILE)
        except DataError:
            continue
        tiles.append(image if truth is None else np.vstack([image, draw_labels(image, truth, dataset.palette)]))
    if not tiles:
        return None
    height = max(tile.shape[0] for tile in tiles)
    tiles = [np.pad(tile, ((0, height - tile.shape[0]), (0, 0), (0, 0))) for tile in tiles]
    columns = min(COLUMNS, len(tiles))
    tiles += [np.zeros_like(tiles[0])] * (-len(tiles) % columns)
    rows = [np.hstack(tiles[start : start + columns]) for start in range(0, len(tiles), columns)]
    return np.vstack([*rows, *_draw_legend(dataset, columns * TILE[1])])


def _sample_frames(dataset: Dataset) -> list[tuple[Video, int]]:
    frames = [frame for split in dataset.splits for frame in dataset.labeled(split)]
    if not frames:
        videos = [video for split in dataset.splits for video in dataset.videos(split)]
        frames = [(video, index) for video in videos for index in range(0, len(video), max(1, len(video) // TILES))]
    return frames[:: max(1, len(frames) // TILES)][:TILES]


def _draw_legend(dataset: Dataset, width: int) -> list[Image]:
    """Rows of color patches with the names of their classes."""
    rows = []
    per_row = max(1, width // LEGEND_CELL)
    for start in range(0, dataset.num_classes, per_row):
        row = np.full((24, width, 3), 255, np.uint8)
        for column, name in enumerate(dataset.class_names[start : start + per_row]):
            left = column * LEGEND_CELL
            row[4:20, left + 4 : left + 28] = dataset.palette[start + column]
            cv2.putText(row, name, (left + 34, 17), cv2.FONT_HERSHEY_SIMPLEX, 0.45, (0, 0, 0), 1, cv2.LINE_AA)
        rows.append(row)
    return rows
