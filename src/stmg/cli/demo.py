"""stmg demo: rendered streets that the shipped network never saw, segmented with and without stmg."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from stmg.cli.options import Out, Threads
from stmg.cli.progress import progress_bar
from stmg.cli.serve import serve_page

if TYPE_CHECKING:
    from rich.progress import Progress

    from stmg.evaluation.comparison import Run
    from stmg.segmenter import VideoSegmenter
    from stmg.streaming.state import FrameResult
    from stmg.video.frames import Image
    from stmg.video.labels import Labels

SIZE, FPS = (360, 480), 30
MODEL = "ddrnet23-slim-streets"


class Street(NamedTuple):
    """A scene of the demo; its seed is far from those that were trained on."""

    name: str
    seed: int
    camera: str
    share: float
    """Of `--frames`."""


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
            runs = _compare(folder, segmenter, truths, progress)
            _write_outputs(folder, street, runs, progress)
        console.print(_table(street, runs))
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
    """What runs stmg in the user's shell: its name, or where it is if the shell would not find it."""
    return "stmg" if shutil.which("stmg") or not os.access(sys.argv[0], os.X_OK) else sys.argv[0]


def _show_live(seed: int, threads: int | None) -> None:
    """The page of `stmg serve`, with one street."""
    from stmg.models.spec import ModelSpec
    from stmg.serve.config import ServeConfig, StreamConfig

    street = StreamConfig(name="street", source=f"street:{seed}", fps=FPS)
    serve_page(ServeConfig(streams=(street,)), ModelSpec(MODEL, {"threads": threads}), browser=True)


def _render_video(path: Path, street: Street, num_frames: int, progress: Progress) -> list[Labels]:
    """Write a street; its true labels."""
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


def _compare(folder: Path, segmenter: VideoSegmenter, truths: Sequence[Labels], progress: Progress) -> dict[str, Run]:
    from stmg.data.camvid import CLASS_NAMES
    from stmg.evaluation.comparison import compare, count_passes
    from stmg.video.sources import open_video

    with open_video(folder / "street.mp4") as video:
        frames = list(video)
    total = count_passes(segmenter) * len(frames)
    task = progress.add_task("segmenting it", total=total, status="")

    def show(method: str) -> None:
        progress.advance(task)
        progress.update(task, status=method)

    return compare(segmenter, frames, truths, len(CLASS_NAMES), FPS, show)


def _write_outputs(folder: Path, street: Street, runs: dict[str, Run], progress: Progress) -> None:
    """What stmg made offline, and beside it the network on every frame and copied labels."""
    from stmg.evaluation.comparison import COPIED, NETWORK, OFFLINE
    from stmg.outputs.records import Records
    from stmg.outputs.sinks import Sinks
    from stmg.outputs.timeline import Timeline
    from stmg.outputs.videos import OverlayVideo, write_h264

    beside, ours = (NETWORK, COPIED, OFFLINE), runs[OFFLINE].results
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
        for results in zip(*(runs[name].results for name in beside), strict=True):
            progress.advance(task)
            yield draw_beside(dict(zip(beside, results, strict=True)))

    write_h264(folder / "side-by-side.mp4", panels(), FPS, quality=23)


def draw_beside(results: dict[str, FrameResult]) -> Image:
    """Results of one frame in a row, each with its title."""
    import cv2
    import numpy as np

    drawn = []
    for title, result in results.items():
        panel = np.ascontiguousarray(result.plot(0.7))
        cv2.rectangle(panel, (0, 0), (12 + 9 * len(title), 26), (0, 0, 0), -1)
        cv2.putText(panel, title, (6, 18), cv2.FONT_HERSHEY_SIMPLEX, 0.5, (255, 255, 255), 1, cv2.LINE_AA)
        drawn.append(panel)
    return np.hstack(drawn)


def _table(street: Street, runs: dict[str, Run]) -> Table:
    from stmg.evaluation.comparison import NETWORK

    base = runs[NETWORK]
    title = f"{street.name}: {len(base.results)} frames of a street never seen, {SIZE[0]}x{SIZE[1]}"
    # Without vertical lines it fits 80 columns.
    table = Table("", title=title, box=box.SIMPLE_HEAD, collapse_padding=True, pad_edge=False)
    for head in ("mIoU", "change", "MACs", "FPS", "gain", "p95", "age"):
        table.add_column(head, justify="right")
    for name, run in runs.items():
        change = 100 * (run.figures.miou / base.figures.miou - 1)
        table.add_row(
            name,
            f"{run.figures.miou:.1f}",
            "" if run is base else f"{change:+.1f} %",
            "" if run.live else f"{run.figures.macs_share(base.figures.cost):.0f} %",
            f"{FPS} live" if run.fps is None else f"{run.fps:.1f}",
            f"{run.fps / base.fps:.2f}x" if run.fps and base.fps else "",
            f"{run.live.latency.p95_ms:.0f} ms" if run.live else "",
            f"{run.live.mean_age:.1f}" if run.live else "",
        )
    return table
