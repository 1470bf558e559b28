"""stmg data check: what a dataset holds, whether all of it can be read, and a sheet of pictures to look at."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress
from rich.table import Table

from stmg.commands.progress import progress_bar
from stmg.data.catalogue import open_dataset
from stmg.data.clips import is_moving
from stmg.data.dataset import DataError, Dataset, Video
from stmg.frames import Image
from stmg.overlay import draw_labels

MOST_PROBLEMS = 10
TILE = (180, 240)
TILES = 12


@dataclass
class Found:
    """What a split holds."""

    num_videos: int = 0
    num_frames: int = 0
    num_labelled: int = 0
    rates: Counter[str] = field(default_factory=Counter)
    sizes: Counter[str] = field(default_factory=Counter)
    pixels: NDArray[np.int64] = field(default_factory=lambda: np.zeros(256, np.int64))


def check(path: str, sheet: Path, console: Console) -> int:
    """Read every label and one frame of each video; the exit code is 1 if anything is wrong."""
    dataset = open_dataset(path)
    problems: list[str] = []
    found: dict[str, Found] = {}
    with progress_bar(console) as progress:
        for split in dataset.splits:
            found[split] = _read(dataset, split, problems, progress)
    _tell(dataset, found, console)
    for problem in problems[:MOST_PROBLEMS]:
        console.print(f"[red]{escape(problem)}[/]", soft_wrap=True, highlight=False)
    if len(problems) > MOST_PROBLEMS:
        console.print(f"[red]and {len(problems) - MOST_PROBLEMS} more[/]")
    picture = contact_sheet(dataset)
    if picture is not None:
        sheet.parent.mkdir(parents=True, exist_ok=True)
        cv2.imwrite(str(sheet), cv2.cvtColor(picture, cv2.COLOR_RGB2BGR))
        console.print(f"a look at it: {escape(str(sheet))}", highlight=False)
    return 1 if problems else 0


def contact_sheet(dataset: Dataset) -> Image | None:
    """Frames from all over the dataset with their labels drawn over them; None if none can be read."""
    tiles = []
    for video, place in _sample(dataset):
        try:
            image, truth = video.image(place, TILE), video.truth(place, TILE)
        except DataError:
            continue
        tiles.append(image if truth is None else np.vstack([image, draw_labels(image, truth, dataset.palette)]))
    if not tiles:
        return None
    height = max(tile.shape[0] for tile in tiles)
    tiles = [np.pad(tile, ((0, height - tile.shape[0]), (0, 0), (0, 0))) for tile in tiles]
    columns = min(4, len(tiles))
    tiles += [np.zeros_like(tiles[0])] * (-len(tiles) % columns)
    rows = [np.hstack(tiles[start : start + columns]) for start in range(0, len(tiles), columns)]
    return np.vstack([*rows, *_legend(dataset, columns * TILE[1])])


def _read(dataset: Dataset, split: str, problems: list[str], progress: Progress) -> Found:
    found = Found()
    videos = dataset.videos(split)
    task = progress.add_task(split, total=None, told="")
    for video in videos:
        try:
            found.num_frames += len(video)
            found.num_videos += 1
            found.rates[_rate(video)] += 1
            first = video.image(0)
            found.sizes[f"{first.shape[0]}x{first.shape[1]}"] += 1
            labelled = video.labelled
        except DataError as error:
            problems.append(str(error))
            continue
        progress.update(task, total=(progress.tasks[task].total or 0) + len(labelled))
        for place in labelled:
            progress.advance(task)
            try:
                video.image(place)
                truth = video.truth(place)
            except DataError as error:
                problems.append(str(error))
                continue
            assert truth is not None
            found.num_labelled += 1
            found.pixels += np.bincount(truth.ravel(), minlength=256)
    return found


def _tell(dataset: Dataset, found: dict[str, Found], console: Console) -> None:
    table = Table("split", "videos", "frames", "labelled", "frame rate", "size", title=escape(dataset.name))
    for split, entry in found.items():
        counts = (entry.num_videos, entry.num_frames, entry.num_labelled)
        table.add_row(split, *map(str, counts), ", ".join(entry.rates), ", ".join(entry.sizes))
    console.print(table)
    if not dataset.class_names:
        console.print("no labels: a teacher gives them in training (data.unlabelled, loss.teacher)")
        return
    shares = Table("class", *[f"{split}, %" for split in found], title="shares of the labelled pixels")
    for number, name in enumerate(dataset.class_names):
        shares.add_row(escape(name), *[_share(entry, number, dataset) for entry in found.values()])
    shares.add_row("[dim]no class[/]", *[_ignored(entry, dataset) for entry in found.values()])
    console.print(shares)


def _share(entry: Found, number: int, dataset: Dataset) -> str:
    known = entry.pixels[: dataset.num_classes].sum()
    return f"{100 * entry.pixels[number] / known:.2f}" if known else "-"


def _ignored(entry: Found, dataset: Dataset) -> str:
    total = entry.pixels.sum()
    return f"[dim]{100 * (1 - entry.pixels[: dataset.num_classes].sum() / total):.2f}[/]" if total else "-"


def _rate(video: Video) -> str:
    if video.rate is None:
        return "stills"
    return f"{video.rate:.3g} Hz" if is_moving(video) else f"{video.rate:.2g} Hz, used as stills"


def _sample(dataset: Dataset) -> list[tuple[Video, int]]:
    places = [place for split in dataset.splits for place in dataset.labelled(split)]
    if not places:
        videos = [video for split in dataset.splits for video in dataset.videos(split)]
        places = [(video, at) for video in videos for at in range(0, len(video), max(1, len(video) // TILES))]
    return places[:: max(1, len(places) // TILES)][:TILES]


def _legend(dataset: Dataset, width: int) -> list[Image]:
    """Rows of colour patches with their names."""
    if not dataset.class_names:
        return []
    cell, rows = 160, []
    per_row = max(1, width // cell)
    for start in range(0, len(dataset.class_names), per_row):
        row = np.full((24, width, 3), 255, np.uint8)
        for place, number in enumerate(range(start, min(start + per_row, len(dataset.class_names)))):
            left = place * cell
            row[4:20, left + 4 : left + 28] = dataset.palette[number]
            name = dataset.class_names[number]
            cv2.putText(row, name, (left + 34, 17), cv2.FONT_HERSHEY_SIMPLEX, 0.45, (0, 0, 0), 1, cv2.LINE_AA)
        rows.append(row)
    return rows
