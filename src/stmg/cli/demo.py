"""stmg demo: a rendered street that the shipped network never saw, segmented with and without stmg."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from stmg.cli.options import Out, Threads
from stmg.cli.progress import progress_bar

if TYPE_CHECKING:
    from rich.progress import Progress

    from stmg.streaming.state import FrameResult
    from stmg.video.labels import Labels

SIZE = (360, 480)
OURS = "stmg"
MODEL = "small-streets"
STREET_SEED = 900_107  # far from the streets it was trained on
FPS = 15


def demo(
    out: Out = Path("out/demo"),
    frames: Annotated[int, typer.Option(min=2, metavar="N", help="Length of the street, at 15 FPS.")] = 150,
    threads: Threads = None,
) -> None:
    """Render a street, segment it with and without stmg, and compare accuracy and speed.

    Takes about half a minute. Writes the overlay video, the pictures, and a JSON line per frame.
    """
    from stmg.checkpoints.locate import shipped_names

    console = Console()
    out.mkdir(parents=True, exist_ok=True)
    with progress_bar(console) as progress:
        truths = _render_video(out / "street.mp4", frames, progress)
        runs = _segment(out, truths, threads, progress)
    console.print(_table(runs, truths))
    console.print(f"see [bold]{escape(str(out))}[/]: overlay.mp4, side-by-side.png, timeline.png, records.jsonl")
    others = [name for name in shipped_names() if name != MODEL]
    if others:
        console.print(f"on a video of yours: stmg segment VIDEO --model {others[0]} --out out/mine", soft_wrap=True)


def _render_video(path: Path, num_frames: int, progress: Progress) -> list[Labels]:
    """Write a street that was not trained on; its true labels."""
    import av

    from stmg.data.synthetic.scene import Scene

    task = progress.add_task("rendering a street", total=num_frames, status="")
    scene = Scene(STREET_SEED, SIZE, fps=FPS)
    truths = []
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=FPS, options={"crf": "16"})
        stream.height, stream.width, stream.pix_fmt = *SIZE, "yuv420p"
        for index in range(num_frames):
            image, truth = scene.frame(index)
            truths.append(truth)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
            progress.advance(task)
        container.mux(stream.encode(None))
    return truths


def _segment(out: Path, truths: list[Labels], threads: int | None, progress: Progress) -> dict[str, list[FrameResult]]:
    """The base network and stmg on the same frames in turn, so that both meet the same machine."""
    from stmg.checkpoints.resolve import load
    from stmg.outputs.overlay_video import OverlayVideo
    from stmg.outputs.records import Records
    from stmg.outputs.sink import Sinks
    from stmg.outputs.timeline import Timeline
    from stmg.streaming.schedulers import Level
    from stmg.video.sources import open_video

    task = progress.add_task("segmenting it", total=len(truths), status="")
    segmenters = {
        "base, every frame": load(MODEL, threads=threads, scheduler="always-key"),
        "the paper's mode": load(MODEL, threads=threads, scheduler="paper", motion="none"),
        OURS: load(MODEL, threads=threads),
    }
    runs: dict[str, list[FrameResult]] = {name: [] for name in segmenters}
    sinks = Sinks(
        OverlayVideo(out / "overlay.mp4", FPS),
        Records(out / "records.jsonl"),
        Timeline(out / "timeline.png", title="a rendered street"),
    )
    with open_video(out / "street.mp4") as video, sinks:
        order = deque(segmenters)
        for frame in video:
            for name in order:
                runs[name].append(segmenters[name].step(frame))
            order.rotate()  # none always comes first, when the caches are cold
            sinks.write(runs[OURS][-1])
            progress.advance(task)
    # The frame that was carried furthest is where there is something to see.
    reused = [index for index, result in enumerate(runs[OURS]) if result.level is not Level.KEY] or [0]
    worst = max(reused, key=lambda index: runs[OURS][index].drift)
    _draw_side_by_side(out / "side-by-side.png", runs[OURS][worst], truths[worst])
    return runs


def _draw_side_by_side(path: Path, result: FrameResult, truth: Labels) -> None:
    import cv2
    import numpy as np

    from stmg.data.camvid import PALETTE
    from stmg.video.overlay import draw_labels, draw_mask

    changed = result.changed if result.changed is not None else np.ones((1, 1), np.float32)
    panels = {
        "frame": result.image,
        f"labels ({result.level})": result.plot(0.7),
        "spatial mask: orange = changed": draw_mask(result.image, changed),
        "truth": draw_labels(result.image, truth, PALETTE, 0.7),
    }
    for title, panel in panels.items():
        panels[title] = np.ascontiguousarray(panel)
        cv2.rectangle(panels[title], (0, 0), (12 + 9 * len(title), 26), (0, 0, 0), -1)
        cv2.putText(panels[title], title, (6, 18), cv2.FONT_HERSHEY_SIMPLEX, 0.5, (255, 255, 255), 1, cv2.LINE_AA)
    frame, labels, mask, true = panels.values()
    cv2.imwrite(str(path), np.vstack((np.hstack((frame, labels)), np.hstack((mask, true))))[:, :, ::-1])


def _table(runs: dict[str, list[FrameResult]], truths: list[Labels]) -> Table:
    from stmg.data.camvid import CLASS_NAMES
    from stmg.evaluation.accuracy import ConfusionMatrix
    from stmg.evaluation.streams import StreamFigures
    from stmg.streaming.schedulers import Level

    title = f"{len(truths)} frames of a street never seen, {SIZE[0]}x{SIZE[1]}"
    # Without vertical lines it fits 80 columns.
    table = Table("", title=title, box=box.SIMPLE_HEAD, collapse_padding=True, pad_edge=False)
    for head in ("mIoU", "FPS", "gain", "key", "partial", "carry", "blocks run", "GMACs"):
        table.add_column(head, justify="right")
    base_fps = None
    for name, results in runs.items():
        figures = StreamFigures(ConfusionMatrix(len(CLASS_NAMES)))
        for result, truth in zip(results, truths, strict=True):
            figures.add(result, truth)
        # The first frame also warms the runtime up; it is left out of the speed of all.
        fps = 1000 / fmean(result.latency_ms for result in results[1:])
        base_fps = base_fps or fps
        assert figures.cost is not None  # a network of the package can be counted
        table.add_row(
            name,
            f"{figures.mean_iou:.1f}%",
            f"{fps:.1f}",
            f"{fps / base_fps:.2f}x",
            *[f"{figures.share(level):.0f}%" for level in Level],
            f"{figures.kept_share:.0f}%" if figures.kept_shares else "-",
            f"{figures.cost.macs / 1e9:.2f}",
        )
    return table
