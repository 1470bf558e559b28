"""stmg demo: a rendered street that the shipped network never saw, with and without stmg."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from statistics import fmean

import av
import cv2
import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress
from rich.table import Table

from stmg.checkpoint import load, shipped
from stmg.commands.progress import progress_bar
from stmg.data.scenes import CLASS_NAMES, PALETTE, Scene
from stmg.evaluation.accuracy import ConfusionMatrix
from stmg.evaluation.stream import StreamFigures
from stmg.overlay import draw_labels, draw_mask
from stmg.scheduler import Level
from stmg.sinks import OverlayVideo, Records, Sinks
from stmg.state import FrameResult, Labels
from stmg.timeline import Timeline
from stmg.video import open_video

SIZE = (360, 480)
OURS = "stmg"
MODEL = "small-streets"
STREET_SEED = 900_107  # far from the streets it was trained on
FPS = 15


def demo(out: Path, num_frames: int, console: Console) -> int:
    """Render, segment, compare; pictures and a table."""
    out.mkdir(parents=True, exist_ok=True)
    with progress_bar(console) as progress:
        truths = _rendered_video(out / "street.mp4", num_frames, progress)
        runs = _segmented(out, truths, progress)
    console.print(_table(runs, truths))
    console.print(f"look at [bold]{escape(str(out))}[/]: overlay.mp4, side-by-side.png, timeline.png, records.jsonl")
    others = [name for name in shipped() if name != MODEL]
    if others:
        console.print(f"on a video of yours: stmg segment VIDEO --model {others[0]} --out out/mine")
    return 0


def _rendered_video(path: Path, num_frames: int, progress: Progress) -> list[Labels]:
    """Write a street that was not trained on; its true labels."""
    task = progress.add_task("rendering a street never seen", total=num_frames, told="")
    scene = Scene(STREET_SEED, SIZE, fps=FPS)
    truths = []
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=FPS, options={"crf": "16"})
        stream.height, stream.width, stream.pix_fmt = *SIZE, "yuv420p"
        for number in range(num_frames):
            image, truth = scene.frame(number)
            truths.append(truth)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
            progress.advance(task)
        container.mux(stream.encode(None))
    return truths


def _segmented(out: Path, truths: list[Labels], progress: Progress) -> dict[str, list[FrameResult]]:
    """The base network and stmg on the same frames in turn, so that both meet the same machine."""
    task = progress.add_task("segmenting it, with and without stmg", total=len(truths), told="")
    segmenters = {
        "base, every frame": load(MODEL, scheduler="always-key"),
        "the paper's mode": load(MODEL, scheduler="paper", motion="none"),
        OURS: load(MODEL),
    }
    runs: dict[str, list[FrameResult]] = {name: [] for name in segmenters}
    sinks = Sinks(
        OverlayVideo(out / "overlay.mp4", FPS),
        Records(out / "records.jsonl"),
        Timeline(out / "timeline.png", title="a rendered street"),
    )
    with open_video(out / "street.mp4") as video, sinks:
        turn = deque(segmenters)
        for frame in video:
            for name in turn:
                runs[name].append(segmenters[name].step(frame))
            turn.rotate()  # nobody always comes first, when the caches are cold
            sinks.write(runs[OURS][-1])
            progress.advance(task)
    # The frame that was carried furthest is where there is something to see.
    reused = [number for number, result in enumerate(runs[OURS]) if result.level is not Level.KEY] or [0]
    worst = max(reused, key=lambda number: runs[OURS][number].drift)
    _side_by_side(out / "side-by-side.png", runs[OURS][worst], truths[worst])
    return runs


def _side_by_side(path: Path, result: FrameResult, truth: NDArray[np.uint8]) -> None:
    changed = result.changed if result.changed is not None else np.ones((1, 1), np.float32)
    panels = {
        "frame": result.image,
        f"labels ({result.level})": result.overlay(0.7),
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
    heads = ("", "mIoU", "FPS", "gain", "key", "partial", "carry", "blocks kept", "GMACs")
    table = Table(*heads, title=f"a street never seen, {SIZE[0]}x{SIZE[1]}")
    base_fps = None
    for name, results in runs.items():
        figures = StreamFigures(ConfusionMatrix(len(CLASS_NAMES)))
        for result, truth in zip(results, truths, strict=True):
            figures.add(result, truth)
        # The first frame also warms the runtime up; it is left out of the speed of all.
        fps = 1000 / fmean(figures.latencies[1:])
        base_fps = base_fps or fps
        table.add_row(
            name,
            f"{figures.mean_iou:.1f}%",
            f"{fps:.1f}",
            f"{fps / base_fps:.2f}x",
            *[f"{figures.share(level):.0f}%" for level in Level],
            f"{figures.kept_share:.0f}%" if figures.kept else "-",
            f"{figures.executed.macs / figures.num_frames / 1e9:.2f}",
        )
    return table
