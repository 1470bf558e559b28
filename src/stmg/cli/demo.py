"""stmg demo: segment rendered streets that the shipped network never saw, with and without stmg."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer
from rich.console import Console
from rich.markup import escape

from stmg.cli.options import Out, Threads
from stmg.cli.progress import progress_bar
from stmg.cli.serve import serve_page

if TYPE_CHECKING:
    from rich.progress import Progress

    from stmg.evaluation.inputs import Clip
    from stmg.evaluation.rows import Row
    from stmg.evaluation.text_table import TextTable
    from stmg.evaluation.way import Way
    from stmg.segmenter import VideoSegmenter
    from stmg.streaming.result import FrameResult
    from stmg.video.frames import Image
    from stmg.video.labels import Labels

SIZE, FPS = (360, 480), 30
MODEL = "ddrnet23-slim-streets"
NETWORK, COPIED, OURS = "network on every frame", "last labels copied", "stmg offline"
COPY_STRIDE = 5


class Street(NamedTuple):
    """A scene of the demo. Its seed is far from those of the training data."""

    name: str
    seed: int
    camera: str
    share: float
    """Share of `--frames`."""


STREETS = (Street("drive", 900_107, "drive", 1.0), Street("fixed camera", 900_211, "fixed", 0.3125))

NEXT = (
    "segment YOUR_VIDEO --model ddrnet23-slim-camvid --out out/mine",
    "tune ddrnet23-slim-camvid YOUR_VIDEO --max-change 2.5%",
    "demo --live",
)


def demo(
    out: Out = Path("out/demo"),
    frames: Annotated[int, typer.Option(min=4, metavar="N", help="Length of the drive, at 30 FPS.")] = 240,
    seed: Annotated[
        int, typer.Option(min=0, metavar="N", help="Seed of the street; from 900000 on, the network never saw them.")
    ] = STREETS[0].seed,
    threads: Threads = None,
    live: Annotated[
        bool, typer.Option("--live", help="Only show the street live on a page, until Ctrl-C; needs the serve extra.")
    ] = False,
) -> None:
    """Render two streets, segment them with and without stmg, and compare accuracy and speed.

    Takes a minute or two. Writes the streets, overlays, videos side by side, timelines, and a JSON line per frame.
    """
    if live:
        _show_live(seed, threads)
        return
    from stmg.models.load import load

    console = Console()
    segmenter = load(MODEL, threads=threads)
    for street in (STREETS[0]._replace(seed=seed), *STREETS[1:]):
        folder = out / street.name.replace(" ", "-")
        folder.mkdir(parents=True, exist_ok=True)
        with progress_bar(console) as progress:
            truths = _render_video(folder / "street.mp4", street, max(4, round(street.share * frames)), progress)
            shown = _compare(folder, segmenter, truths, progress)
            _write_outputs(folder, street, shown, progress)
        title = f"{street.name}: {len(truths)} frames of a street never seen, {SIZE[0]}x{SIZE[1]}"
        console.print(make_demo_table(title, shown.rows).rich())
    console.print(
        "change (of mIoU), MACs and gain (in speed): beside the network on every frame\n"
        "p95: how soon 95 % of frames are answered; age: frames since the labels were computed",
        style="dim",
    )
    console.print(f"see [bold]{escape(str(out))}[/]: side-by-side.mp4, overlay.mp4, timeline.png of each street")
    console.print("next:")
    for command in NEXT:
        console.print(f"  {_own_command()} {command}", soft_wrap=True, highlight=False)


def _own_command() -> str:
    """The command that runs stmg in the user's shell: its name, or its path if the shell would not find it."""
    return "stmg" if shutil.which("stmg") or not os.access(sys.argv[0], os.X_OK) else sys.argv[0]


def _show_live(seed: int, threads: int | None) -> None:
    """Open the page of `stmg serve` with one street."""
    from stmg.models.spec import ModelSpec
    from stmg.serve.config import ServeConfig, StreamConfig

    street = StreamConfig(name="street", source=f"street:{seed}", fps=FPS)
    serve_page(ServeConfig(streams=(street,)), ModelSpec(MODEL, {"threads": threads}), browser=True)


def _render_video(path: Path, street: Street, num_frames: int, progress: Progress) -> list[Labels]:
    """Write a street as a video. Return its true labels."""
    from stmg.data.synthetic.scene import Scene
    from stmg.outputs.videos import write_h264

    task = progress.add_task(f"rendering a {street.name}", total=num_frames, status="")
    scene = Scene(street.seed, SIZE, street.camera, FPS)
    truths = []

    def images() -> Iterable[Image]:
        for index in range(num_frames):
            image, truth = scene.frame(index)
            truths.append(truth)
            progress.advance(task)
            yield image

    write_h264(path, images(), FPS, quality=16)
    return truths


class Demonstration(NamedTuple):
    """Results of every way on a street."""

    rows: dict[str, Row]
    results: dict[str, list[FrameResult]]


def list_ways(with_paper: bool) -> dict[str, Way]:
    """The ways that the demo compares, by name."""
    from stmg.evaluation.way import BASE, OFFLINE, ONLINE, Way

    # Use the lower of the paper's two thresholds: on streets it loses a third less than 0.95.
    paper = Way(kind="paper", settings={"scheduler": {"name": "paper", "after_partial": 0.9}})
    return {
        NETWORK: BASE,
        COPIED: Way(kind="copied-labels", stride=COPY_STRIDE),
        **({"the paper's mode": paper} if with_paper else {}),
        "stmg online": ONLINE,
        OURS: OFFLINE,
        "stmg realtime": Way(kind="realtime"),
    }


def compare(
    segmenter: VideoSegmenter, clip: Clip, num_classes: int, on_frames: Callable[[str, int, int], None]
) -> Demonstration:
    """Run every way of the demo over a clip.

    on_frames: called with a name, how many more of its frames are done, and how many there are of all ways.
    """
    from stmg.evaluation.measure import count_frames, measure_ways
    from stmg.evaluation.streams import open_way

    ways = list_ways(segmenter.runtime.has_mask_generator)
    names = {way: name for name, way in ways.items()}
    streams = [open_way(way, segmenter) for way in names]
    total = count_frames(streams, len(clip.frames), 1, base_passes=False)
    results: dict[str, list[FrameResult]] = {name: [] for name in ways}

    def add(way: Way, index: int, result: FrameResult) -> None:
        results[names[way]].append(result)

    def progress(way: Way, frames: int) -> None:
        on_frames(names[way], frames, total)

    measured = measure_ways(streams, clip, num_classes, on_result=add, on_progress=progress, base_passes=False)
    return Demonstration({names[stream.way]: measured.row(stream) for stream in streams}, results)


def _compare(folder: Path, segmenter: VideoSegmenter, truths: list[Labels], progress: Progress) -> Demonstration:
    from stmg.data.camvid import CLASS_NAMES
    from stmg.evaluation.inputs import Clip
    from stmg.video.sources import open_video

    with open_video(folder / "street.mp4") as video:
        clip = Clip(list(video), [*truths], {0}, None, None, FPS)
    task = progress.add_task("segmenting it", total=None, status="")

    def show(name: str, frames: int, total: int) -> None:
        progress.update(task, advance=frames, total=total, status=name)

    return compare(segmenter, clip, len(CLASS_NAMES), show)


def _write_outputs(folder: Path, street: Street, shown: Demonstration, progress: Progress) -> None:
    """Write the outputs of stmg offline, and beside them the network on every frame and copied labels."""
    from stmg.outputs.records import Records
    from stmg.outputs.sinks import Sinks
    from stmg.outputs.timeline import Timeline
    from stmg.outputs.videos import OverlayVideo, write_h264

    ours = shown.results[OURS]
    task = progress.add_task("drawing", total=2 * len(ours), status="")
    sinks = Sinks(
        OverlayVideo(folder / "overlay.mp4", FPS),
        Records(folder / "records.jsonl"),
        Timeline(folder / "timeline.png", title=f"a rendered street, {street.name}"),
    )
    with sinks:
        for result in ours:
            sinks.write(result)
            progress.advance(task)

    def panels() -> Iterable[Image]:
        beside = (NETWORK, COPIED, OURS)
        for results in zip(*(shown.results[name] for name in beside), strict=True):
            progress.advance(task)
            yield draw_beside(dict(zip(beside, results, strict=True)))

    write_h264(folder / "side-by-side.mp4", panels(), FPS, quality=23)


def draw_beside(results: dict[str, FrameResult]) -> Image:
    """Draw the results of one frame in a row, each with its title."""
    import cv2
    import numpy as np

    drawn = []
    for title, result in results.items():
        panel = np.ascontiguousarray(result.plot(0.7))
        cv2.rectangle(panel, (0, 0), (12 + 9 * len(title), 26), (0, 0, 0), -1)
        cv2.putText(panel, title, (6, 18), cv2.FONT_HERSHEY_SIMPLEX, 0.5, (255, 255, 255), 1, cv2.LINE_AA)
        drawn.append(panel)
    return np.hstack(drawn)


def make_demo_table(title: str, rows: Mapping[str, Row]) -> TextTable:
    """Accuracy, cost and speed of every way, beside the network on every frame."""
    from stmg.evaluation.text_table import change, macs_share, make_table, number, ratio

    base = rows[NETWORK]
    names = {row.way: name for name, row in rows.items()}
    columns: dict[str, Callable[[Row], str]] = {
        "": lambda row: names[row.way],
        "mIoU": lambda row: number(row.miou, 1),
        "change": lambda row: "" if row is base else change(row.miou, base.miou, 1),
        "MACs": lambda row: "" if row.live else macs_share(row.cost, base.cost, 0),
        "FPS": lambda row: f"{row.live.rate:g} live" if row.live else number(row.fps, 1),
        "gain": lambda row: "" if row.live else ratio(row.gain),
        "p95": lambda row: number(row.live.latency.p95_ms, 0, " ms") if row.live else "",
        "age": lambda row: number(row.live.mean_age, 1) if row.live else "",
    }
    return make_table(title, rows.values(), columns)
